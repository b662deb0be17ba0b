/** The logged-in caller and its scopes. The session is a cookie that scripts cannot read; no key is stored. */
import { useQuery, useQueryClient, type QueryClient } from "@tanstack/react-query";
import { createContext, useContext, useEffect } from "react";
import { actFor, api, data, onRefused, Problem, type Schemas } from "./client";
import { refusal } from "./refusals";

export type Answer = Schemas["LoginSession"];
export type Session = Answer & { actor: string; org: string };
export type Scope = "read" | "start" | "work" | "operate" | "deploy" | "admin" | "commands";

/** The session on a server without keys, which allows everything to callers on its own machine. */
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
const AGAIN = 3_000; // ms between retries while the server does not respond

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

/** Return whether the caller may manage all orgs: the operator may, except while acting for another org. */
export function governs(session: Pick<Session, "operator" | "org">): boolean {
  return session.operator && session.org === EVERYTHING.org;
}

export function isLoggedIn(answer: Answer): answer is Session {
  return answer.actor !== null && answer.org !== null;
}

/** Query the session. It is fetched again when the window gets the focus and after a refused request. */
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
    throw new Problem(0, "Not logged in", "the browser did not store the session cookie: open the dashboard over HTTPS, or on the machine of the server");
  }
  begin(client, answer);
}

export async function logOut(client: QueryClient): Promise<void> {
  await api.POST("/auth/logout");
  begin(client, await data(api.GET("/auth/session")));
}

/** Switch the session to another org; `leave` opens a page that exists in every org. */
export async function chooseOrg(client: QueryClient, org: string, leave: () => void): Promise<void> {
  const answer = await data(api.POST("/auth/org", { body: { org } }));
  leave();
  begin(client, answer);
}

/** Start with a new session: drop everything that was fetched for another caller or org. */
function begin(client: QueryClient, answer: Answer): void {
  failure = null;
  actFor(answer.org); // first: components that are still mounted refetch before the session is rendered
  client.removeQueries({ predicate: ({ queryKey }) => queryKey[0] !== KEY[0] });
  client.setQueryData(KEY, answer);
}

let linked: Promise<void> = Promise.resolve();
let failure: unknown = null;

/** Return the error of a refused key in the link, or of a refused login at the provider; null if there is none. */
export function linkFailure(): unknown {
  return failure;
}

/** Read the fragment of the URL, which browsers do not send: the key of the link that `windlass up --allow-commands`
 * prints, or the reason why the server refused a login at the provider. */
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
