/** Who is logged in, and what they may do. The session itself is a cookie that no script can read; no key is kept. */
import { useQuery, useQueryClient, type QueryClient } from "@tanstack/react-query";
import { createContext, useContext, useEffect } from "react";
import { actFor, api, data, onRefused, Problem, type Schemas } from "./client";
import { refusal } from "./refusals";

export type Answer = Schemas["LoginSession"];
export type Session = Answer & { actor: string; org: string };
export type Scope = "read" | "start" | "work" | "operate" | "deploy" | "admin" | "commands";

/** What a server without keys allows to everyone on its machine. */
const EVERYTHING: Session = {
  actor: "operator",
  org: "default",
  orgs: ["default"],
  role: null,
  scopes: ["read", "start", "work", "operate", "deploy", "admin", "commands"],
  grantable_roles: ["viewer", "operator", "developer", "admin"],
  operator: true,
  logged_in: false,
  methods: [],
  issuer: null,
};
const KEY = ["session"];
const AGAIN = 3_000; // while the server does not respond

export const SessionContext = createContext<Session>(EVERYTHING);

export function useSession(): Session {
  return useContext(SessionContext);
}

export function may(session: Pick<Session, "scopes">, scope: Scope): boolean {
  return session.scopes.includes(scope);
}

export function useMay(scope: Scope): boolean {
  return may(useSession(), scope);
}

/** Whether the caller may see and change what belongs to all orgs; the operator who acts for another org may not. */
export function governs(session: Pick<Session, "operator" | "org">): boolean {
  return session.operator && session.org === EVERYTHING.org;
}

export function isLoggedIn(answer: Answer): answer is Session {
  return answer.actor !== null && answer.org !== null;
}

/** The session as the server describes it. It is fetched again when the window gets the focus and after a refusal. */
export function useSessionQuery() {
  const client = useQueryClient();
  useEffect(() => onRefused(() => void client.invalidateQueries({ queryKey: KEY })), [client]);
  return useQuery({
    queryKey: KEY,
    queryFn: async () => {
      await linked;
      return data(api.GET("/auth/session"));
    },
    refetchInterval: ({ state }) => (state.error ? AGAIN : false),
  });
}

export async function logIn(client: QueryClient, key: string): Promise<void> {
  await api.POST("/auth/login", { body: { key } });
  const answer = await data(api.GET("/auth/session"));
  if (!isLoggedIn(answer)) {
    throw new Problem(0, "Not logged in", "the browser did not keep the cookie of the session: open the dashboard over HTTPS, or on the machine of the server");
  }
  begin(client, answer);
}

export async function logOut(client: QueryClient): Promise<void> {
  await api.POST("/auth/logout");
  begin(client, await data(api.GET("/auth/session")));
}

/** Act for another org; `leave` goes to a page that exists there. */
export async function chooseOrg(client: QueryClient, org: string, leave: () => void): Promise<void> {
  const answer = await data(api.POST("/auth/org", { body: { org } }));
  leave();
  begin(client, answer);
}

/** Forget everything that was fetched for another caller or org. */
function begin(client: QueryClient, answer: Answer): void {
  failure = null;
  actFor(answer.org); // at once: what is still mounted fetches again before the session is rendered
  client.removeQueries({ predicate: ({ queryKey }) => queryKey[0] !== KEY[0] });
  client.setQueryData(KEY, answer);
}

let linked: Promise<void> = Promise.resolve();
let failure: unknown = null;

/** Why the key in the link, or the login at the provider, was refused; null: it was not. */
export function linkFailure(): unknown {
  return failure;
}

/** Read the fragment, which browsers do not send: the key of the link that `windlass up --allow-commands` prints, or why
 * the server refused a login at the provider. */
export function logInFromLink(at: Location = location): Promise<void> {
  const fragment = new URLSearchParams(at.hash.slice(1));
  const key = fragment.get("key");
  const reason = fragment.get("login");
  if (key || reason) history.replaceState(null, "", at.pathname + at.search);
  if (reason) failure = refusal(reason, fragment.get("email"));
  if (key) {
    linked = api.POST("/auth/login", { body: { key } }).then(
      () => undefined,
      (error: unknown) => void (failure = error),
    );
  }
  return linked;
}
