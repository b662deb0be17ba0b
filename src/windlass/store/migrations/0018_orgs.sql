-- May run before the new code: yes (tables that older code does not use).
-- Organisations: what belongs to one, who may act for it, and what it may use.

-- Limits of a plan; null means no limit. `free` and `pro` are examples that an operator may change.
create table windlass.plan (
  name                      text primary key,
  workflows                 int check (workflows >= 0),
  steps_per_workflow        int check (steps_per_workflow >= 1),
  runs_at_once              int check (runs_at_once >= 0),
  executions_per_month      bigint check (executions_per_month >= 0),
  executions_at_once        int check (executions_at_once >= 0),
  schedules                 boolean not null default true,  -- whether workflows may have a cron trigger
  created_at                timestamptz not null default windlass.now(),
  updated_at                timestamptz not null default windlass.now()
);
insert into windlass.plan (name) values ('unlimited');
insert into windlass.plan (name, workflows, steps_per_workflow, runs_at_once, executions_per_month, executions_at_once, schedules)
values ('free', 3, 5, 1, 10000, 5, false), ('pro', null, 20, 10, 1000000, 5, true);

create table windlass.org (
  name        text primary key,
  plan        text not null default 'unlimited' references windlass.plan,
  created_at  timestamptz not null default windlass.now(),
  disabled_at timestamptz
);
insert into windlass.org (name) values ('default');
-- Until now an org was a label that any program could choose. All labels in use become orgs.
insert into windlass.org (name)
select distinct org from (
  select org from windlass.workflow union select org from workflow.workflow_run where org <> 'default' union select org from windlass.cron
  union select org from windlass.subscription union select org from windlass.job_schema) as known
on conflict do nothing;
alter table windlass.org add constraint org_name_check check (name ~ '^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$') not valid;

create index org_disabled on windlass.org (name) where disabled_at is not null;

-- Keys of the API. Only a keyed hash of the secret is stored, and the id is looked up.
create table windlass.api_key (
  id           text primary key,
  org          text not null references windlass.org,
  hash         bytea not null,
  name         text not null,
  role         text,
  scopes       text[] not null,
  label        text,  -- the tenant of the Open Job Spec that its jobs get and that it is restricted to
  created_at   timestamptz not null default windlass.now(),
  created_by   text not null,
  expires_at   timestamptz,
  last_used_at timestamptz,
  revoked_at   timestamptz
);
create index api_key_org on windlass.api_key (org, created_at desc, id desc);

-- People who log in with OpenID Connect, the orgs they are members of, and the sessions of browsers.
create table windlass.identity (
  id         uuid primary key,
  issuer     text not null,
  subject    text not null,
  email      text,
  name       text,
  created_at timestamptz not null default windlass.now(),
  seen_at    timestamptz not null default windlass.now(),
  unique (issuer, subject)
);
create table windlass.member (
  org        text not null references windlass.org,
  email      text not null,  -- in lower case; the identity with this verified address is the member
  role       text not null,
  created_at timestamptz not null default windlass.now(),
  created_by text not null,
  primary key (org, email)
);
create index member_email on windlass.member (email);
create table windlass.session (
  hash        bytea primary key,  -- of the cookie
  identity_id uuid references windlass.identity on delete cascade,
  key_id      text references windlass.api_key on delete cascade,
  org         text references windlass.org,  -- the one it looks at
  created_at  timestamptz not null default windlass.now(),
  seen_at     timestamptz not null default windlass.now(),
  expires_at  timestamptz not null,
  check (num_nonnulls(identity_id, key_id) <= 1)
);
create index session_expiry on windlass.session (expires_at);

-- Who did what to which object. Rows are only inserted, and old months are dropped.
create table windlass.audit (
  id         bigint generated always as identity,
  at         timestamptz not null default windlass.now(),
  org        text not null,
  actor      text not null,
  action     text not null,
  object     text,
  data       jsonb,
  primary key (at, id)
) partition by range (at);
create table windlass.audit_default partition of windlass.audit default;
create index audit_org on windlass.audit (org, at desc, id desc);
create function windlass.audit_forbid() returns trigger language plpgsql set search_path = '' as $$
begin
  raise exception 'rows of the audit log never change' using errcode = 'insufficient_privilege';
end $$;
create trigger audit_forbid before update or delete on windlass.audit for each row execute function windlass.audit_forbid();

-- The org of a Postgres role that produces or works through plain SQL. Other roles act for `default`.
create table windlass.sql_role (
  role       name primary key,
  org        text not null references windlass.org,
  created_at timestamptz not null default windlass.now()
);
