/** The messages for refused logins with OpenID Connect. The codes are `LoginRefusal` in core/orgs.py. */
import { Problem } from "./client";

const AGAIN = "log in again; if that does not help, the log of the server has the reason";

/** Return the error to show. It contains the address only if it looks like one: a link may contain any text. */
export function refusal(reason: string, email: string | null): Problem {
  const address = email !== null && /^[^\s@]{1,64}@[^\s@]{1,255}$/.test(email) ? email : "your email address";
  return new Problem(401, "Login refused", wordsOf(reason, address));
}

function wordsOf(reason: string, address: string): string {
  switch (reason) {
    case "expired":
      return "the login was started in another browser, or more than ten minutes ago: log in again";
    case "denied":
      return `the provider did not allow the login: ${AGAIN}`;
    case "invalid":
      return `the provider sent an invalid response: ${AGAIN}`;
    case "unavailable":
      return "the provider or the database does not respond: try again in a minute";
    case "unverified":
      return "the provider has not verified your email address: verify it there, and log in again";
    case "no-membership":
      return `${address} is not a member of any organisation: ask an admin to add it, or log in with another account`;
    default:
      return AGAIN;
  }
}
