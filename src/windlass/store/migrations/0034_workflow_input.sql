-- May run before the new code: yes (a column that older code does not use).
-- The JSON Schema of the input of runs, once more and as json: jsonb does not keep the order of keys, and a form has its fields in
-- the order of the definition.

alter table windlass.version add column input json;
