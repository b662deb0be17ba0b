-- May run before the new code: yes (columns, an index and a function that older code does not use).
-- The secret that a rotated key had before stays valid until `old_until`. Names of keys appear in the event trail and in the
-- audit log, so no two valid keys of an org have the same.
alter table windlass.api_key add column old_hash bytea, add column old_until timestamptz;
create unique index api_key_name on windlass.api_key (org, name) where revoked_at is null;

-- Create the partition of the audit log of the month that `at` falls into; return its name, or null if it exists.
create function windlass.make_audit_partition(at timestamptz) returns text language plpgsql set search_path = '' as $$
declare
  first timestamptz := date_trunc('month', at at time zone 'UTC') at time zone 'UTC';
  next timestamptz := (date_trunc('month', at at time zone 'UTC') + interval '1 month') at time zone 'UTC';
  name text := 'audit_' || to_char(first at time zone 'UTC', 'YYYYMM');
begin
  if to_regclass('windlass.' || name) is not null then
    return null;
  end if;
  execute format('create table windlass.%I (like windlass.audit including defaults including indexes,
                  constraint month check (at >= %L and at < %L))', name, first, next);
  if exists (select from windlass.audit_default as a where a.at >= first and a.at < next) then
    -- The month was not created in time, and its entries went to the default partition. Writers wait for the move, as for events.
    -- Moving is not changing: the trigger that forbids changes is off for the move, under the lock.
    lock table windlass.audit in share row exclusive mode;
    alter table windlass.audit_default disable trigger audit_forbid;
    execute format('with moved as (delete from windlass.audit_default where at >= %L and at < %L returning *)
                    insert into windlass.%I select * from moved', first, next, name);
    alter table windlass.audit_default enable trigger audit_forbid;
  end if;
  execute format('alter table windlass.audit attach partition windlass.%I for values from (%L) to (%L)', name, first, next);
  execute format('alter table windlass.%I drop constraint month', name);
  return name;
end $$;
select windlass.make_audit_partition(windlass.now() + n * interval '1 month') from generate_series(0, 2) as n;
