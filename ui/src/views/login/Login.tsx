/** Logs in with a key, or with OpenID Connect if the server offers it. The requested page stays in the URL. */
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useEffect, useRef, useState } from "react";
import { linkFailure, logIn } from "../../api/session";
import { Trouble } from "../../parts/Feedback";

export function Login({ issuer }: { issuer: string | null }) {
  const client = useQueryClient();
  const [key, setKey] = useState("");
  const field = useRef<HTMLInputElement>(null);
  const send = useMutation({ mutationFn: () => logIn(client, key.trim()), gcTime: 0 });
  const error = send.error ?? linkFailure();
  useEffect(() => {
    document.title = "Log in · Windlass";
    field.current?.focus();
  }, []);
  return (
    <form
      className="empty login"
      onSubmit={(event) => {
        event.preventDefault();
        send.mutate();
      }}
    >
      <h1>Log in</h1>
      {issuer !== null && (
        <>
          <a className="button primary" href={start(location)}>
            Log in with {hostOf(issuer)}
          </a>
          <p className="dim">or with an API key:</p>
        </>
      )}
      <label>
        Key <input ref={field} type="password" autoComplete="current-password" value={key} onChange={(event) => setKey(event.target.value)} />
      </label>
      <p className="dim">
        A key of your organisation, or the operator's WINDLASS_API_KEY. It is sent once and not kept in this browser. To create one: <code>windlass keys create</code>
      </p>
      {error !== null && !send.isPending && <Trouble error={error} />}
      <div className="actions">
        <button type="submit" className={issuer === null ? "primary" : ""} disabled={!key.trim() || send.isPending}>
          Log in
        </button>
      </div>
    </form>
  );
}

/** Return the host of an OpenID Connect provider, which is shown as its name. */
export function hostOf(issuer: string): string {
  return new URL(issuer).host;
}

/** Return the URL that starts a login with OpenID Connect, which returns to this page. */
export function start(at: Pick<Location, "pathname" | "search">): string {
  return `/auth/oidc/start?${new URLSearchParams({ next: at.pathname + at.search })}`;
}
