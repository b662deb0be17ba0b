-- May run before the new code: yes (a column that older code does not use).
-- A second copy, as json, of the JSON Schema of the input of runs: jsonb does not keep the order of keys, and a form shows its fields
-- in the order of the definition.

alter table windlass.version add column input json;
