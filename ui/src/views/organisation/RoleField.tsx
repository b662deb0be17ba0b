/** A select for the roles that the caller may grant, with a description of the chosen role. */
import { useSession } from "../../api/session";
import { Field } from "../../parts/Field";
import { MEANINGS, type Role } from "./words";

/** Return the roles that the caller may grant, and the initial one. */
export function useRoles(first: string | undefined): [Role[], Role] {
  const roles = useSession().grantable_roles;
  return [roles, roles.find((each) => each === first) ?? roles[0] ?? "viewer"];
}

export function RoleField({ roles, role, change }: { roles: Role[]; role: Role; change: (role: Role) => void }) {
  return (
    <Field name="role" label="Role" hint={`${/^[ao]/.test(role) ? "An" : "A"} ${role} ${MEANINGS[role]}.`}>
      {(input) => (
        <select {...input} value={role} onChange={(event) => change(event.target.value as Role)}>
          {roles.map((each) => (
            <option key={each}>{each}</option>
          ))}
        </select>
      )}
    </Field>
  );
}
