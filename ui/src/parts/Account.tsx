/** The account menu in the header: shows the caller and the org, switches to another org, logs out. */
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useLocation } from "wouter";
import { chooseOrg, logOut, useSession } from "../api/session";
import { Dialog } from "./Dialog";
import { Trouble } from "./Feedback";
import { Menu } from "./Menu";

export function Account() {
  const client = useQueryClient();
  const session = useSession();
  const [place, go] = useLocation();
  const leave = () => go(`/${place.split("/")[1]}`); // the rest of the path names an object of this org
  const turn = useMutation({ mutationFn: (org: string) => chooseOrg(client, org, leave) });
  const out = useMutation({ mutationFn: () => logOut(client) });
  const error = turn.error ?? out.error;
  if (!session.logged_in) return null;
  return (
    <>
      <Menu label={<AccountLabel />} name={`Account: ${session.actor}, org ${session.org}`}>
        <p className="menu-note">
          Logged in as <strong>{session.actor}</strong>
          {session.role && `, ${session.role}`}
        </p>
        {session.orgs.length > 1 && (
          <div role="group" aria-label="Organisation" className="menu-list">
            {session.orgs.map((org) => (
              <button key={org} type="button" className="item" aria-pressed={org === session.org} disabled={turn.isPending} onClick={() => turn.mutate(org)}>
                {org}
              </button>
            ))}
          </div>
        )}
        <button type="button" className="item" disabled={out.isPending} onClick={() => out.mutate()}>
          Log out
        </button>
      </Menu>
      {error && (
        <Dialog title="The request failed" onClose={() => (turn.reset(), out.reset())}>
          <Trouble error={error} />
        </Dialog>
      )}
    </>
  );
}

function AccountLabel() {
  const { actor, org } = useSession();
  return (
    <span className="account">
      <strong>{org}</strong>
      <span className="dim account-actor">{actor}</span>
    </span>
  );
}
