/** The organisation in components: the pages of a caller, states of keys, limits, and errors at their fields. */
import { cleanup, render, screen } from "@testing-library/react";
import { afterEach, describe, expect, it } from "vitest";
import { Problem } from "../../api/client";
import { SessionContext, type Session } from "../../api/session";
import { Allowed, AllowedPage } from "../../parts/Allowed";
import { Field, Mistakes, unplaced } from "../../parts/Field";
import { refusal } from "../../api/refusals";
import { hostOf, start } from "../login/Login";
import { allowed } from "./Organisation";
import { Meter } from "./Usage";
import { ofOrg, readFilters, setFilters, stateOfKey, typedLimit } from "./words";

afterEach(cleanup);

const session = (...scopes: string[]): Session => ({ actor: "key:ci", org: "acme", orgs: ["acme"], role: null, scopes, grantable_roles: [], operator: false, logged_in: true, methods: ["key"], issuer: null });

describe("the pages of the organisation", () => {
  it("are those that the scopes allow", () => {
    const names = (of: Session) => allowed(of).map((each) => each.name);
    expect(names(session("read"))).toEqual(["usage"]);
    expect(names(session("read", "admin"))).toEqual(["usage", "keys", "members", "secrets", "audit"]);
    const operator = { ...session("read", "admin"), operator: true };
    expect(names(operator)).not.toContain("orgs"); // the operator acts for another org
    expect(names({ ...operator, org: "default" })).toEqual(["usage", "keys", "members", "secrets", "audit", "orgs", "plans"]);
  });

  it("and buttons are hidden from a caller without the scope", () => {
    render(
      <SessionContext value={session("read")}>
        <Allowed scope="operate">pause</Allowed>
        <Allowed scope="read">look</Allowed>
        <AllowedPage scope="deploy">edit</AllowedPage>
      </SessionContext>,
    );
    expect(screen.queryByText("pause")).toBeNull();
    expect(screen.getByText("look")).toBeDefined();
    expect(screen.queryByText("edit")).toBeNull();
    expect(screen.getByText(/You lack the scope deploy/)).toBeDefined();
  });
});

describe("a key", () => {
  const now = Date.parse("2030-01-01T12:00:00Z");

  it("is valid until it expires or is revoked", () => {
    expect(stateOfKey({ revoked_at: null, expires_at: null }, now)).toBe("valid");
    expect(stateOfKey({ revoked_at: null, expires_at: "2030-01-01T12:00:01Z" }, now)).toBe("valid");
    expect(stateOfKey({ revoked_at: null, expires_at: "2030-01-01T12:00:00Z" }, now)).toBe("expired");
    expect(stateOfKey({ revoked_at: "2029-12-31T00:00:00Z", expires_at: "2030-06-01T00:00:00Z" }, now)).toBe("revoked");
  });
});

describe("commands and addresses", () => {
  it("name the org, unless it is the default", () => {
    expect(ofOrg("windlass keys list", "default")).toBe("windlass keys list");
    expect(ofOrg("windlass keys list", "acme")).toBe("windlass keys list --org acme");
  });

  it("of a login come back to the page that was asked for", () => {
    expect(start({ pathname: "/runs", search: "?status=failed&text=a" })).toBe("/auth/oidc/start?next=%2Fruns%3Fstatus%3Dfailed%26text%3Da");
  });

  it("name the provider of a login by its host", () => {
    expect(hostOf("https://login.example.com/realms/staff")).toBe("login.example.com");
  });

  it("of a refused login are shown only if they look like one", () => {
    expect(refusal("no-membership", "bob@example.com").message).toMatch(/^bob@example.com is not a member/);
    for (const made of [null, "", "call 555@example.com now"]) expect(refusal("no-membership", made).message).toMatch(/^your email address is not/);
    expect(refusal("made-up", null).message).toMatch(/^log in again/);
  });

  it("of the audit log keep the filters that are set", () => {
    expect(setFilters(readFilters(new URLSearchParams("actor=key:ci&action=+&other=1")))).toEqual({ actor: "key:ci" });
  });
});

describe("a limit", () => {
  it("is typed as a number, or as nothing for none", () => {
    expect([" ", "0", "10,000", "10 000"].map(typedLimit)).toEqual([null, 0, 10_000, 10_000]);
    expect(["-1", "1.5", "many", "99999999999999999999"].map(typedLimit)).toEqual([undefined, undefined, undefined, undefined]);
  });

  it("is shown as a bar that is full when it is reached, also if it is zero", () => {
    render(
      <>
        <Meter label="some" used={250} limit={1000} />
        <Meter label="all" used={1200} limit={1000} />
        <Meter label="none" used={0} limit={0} />
        <Meter label="free" used={7} limit={null} />
      </>,
    );
    const value = (name: string) => screen.getByLabelText<HTMLProgressElement>(name);
    expect([value("some").value, value("all").value, value("none").value]).toEqual([250, 1000, 1]);
    expect([value("some").className, value("all").className, value("none").className]).toEqual(["meter tone-busy", "meter tone-bad", "meter tone-bad"]);
    expect(screen.queryByLabelText("free")).toBeNull();
  });
});

describe("an error of the server", () => {
  const error = new Problem(422, "Invalid", "both are wrong", [
    { field: "email", message: "it must look like alice@example.com" },
    { field: "other", message: "is unknown" },
  ]);

  it("is shown at the field that it names", () => {
    render(
      <Mistakes value={error}>
        <Field name="email" label="Address">
          {(input) => <input {...input} />}
        </Field>
        <Field name="role" label="Role" hint="what it allows">
          {(input) => <input {...input} />}
        </Field>
      </Mistakes>,
    );
    const [email, role] = [screen.getByLabelText("Address"), screen.getByLabelText("Role")];
    expect(email.getAttribute("aria-invalid")).toBe("true");
    expect(document.getElementById(email.getAttribute("aria-describedby")!)!.textContent).toBe("it must look like alice@example.com");
    expect(role.getAttribute("aria-invalid")).toBe("false");
    expect(document.getElementById(role.getAttribute("aria-describedby")!)!.textContent).toBe("what it allows");
  });

  it("is shown below the form as far as it names no field of it", () => {
    expect(unplaced(error, ["email", "other"])).toBeNull();
    expect((unplaced(error, ["email"]) as Problem).errors).toEqual([{ field: "other", message: "is unknown" }]);
    expect(unplaced(error, ["role"])).toBe(error);
    const conflict = new Problem(409, "Conflict", "org acme exists");
    expect(unplaced(conflict, ["name"])).toBe(conflict);
  });
});
