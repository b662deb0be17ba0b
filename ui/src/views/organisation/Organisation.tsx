/** The organisation: usage, keys, members, secrets and audit log; for the operator also all orgs and plans. */
import type { ComponentType } from "react";
import { useLive } from "../../api/live";
import { governs, may, useSession, type Session } from "../../api/session";
import { Copy } from "../../parts/Copy";
import { Empty } from "../../parts/Feedback";
import { Menu } from "../../parts/Menu";
import { Tabs } from "../../parts/Tabs";
import { Audit } from "./Audit";
import { Keys } from "./Keys";
import { Members } from "./Members";
import { Orgs } from "./Orgs";
import { Plans } from "./Plans";
import { Secrets } from "./Secrets";
import { Usage } from "./Usage";
import { ofOrg } from "./words";

interface Page {
  name: string; // also in the route of the API
  title: string;
  needs: "read" | "admin" | "operator";
  command: string;
  Component: ComponentType;
}

export const PAGES: Page[] = [
  { name: "usage", title: "Usage", needs: "read", command: "windlass usage", Component: Usage },
  { name: "keys", title: "Keys", needs: "admin", command: "windlass keys list", Component: Keys },
  { name: "members", title: "Members", needs: "admin", command: "windlass members list", Component: Members },
  { name: "secrets", title: "Secrets", needs: "admin", command: "windlass secrets list", Component: Secrets },
  { name: "audit", title: "Audit", needs: "admin", command: "windlass audit", Component: Audit },
  { name: "orgs", title: "Orgs", needs: "operator", command: "windlass orgs list", Component: Orgs },
  { name: "plans", title: "Plans", needs: "operator", command: "windlass plans list", Component: Plans },
];

export function allowed(session: Session): Page[] {
  return PAGES.filter(({ needs }) => (needs === "operator" ? governs(session) : may(session, needs)));
}

export default function Organisation({ params }: { params: Record<string, string | undefined> }) {
  useLive("/api/v1/stream?kind=run", [], undefined); // only for the connection indicator: no stream announces these changes
  const session = useSession();
  const tab = params["tab"] ?? PAGES[0]!.name;
  const page = PAGES.find((each) => each.name === tab);
  const pages = allowed(session);
  return (
    <section className="view">
      <div className="view-head">
        <h1>
          Organisation <span className="dim">{session.org}</span>
        </h1>
        {page && pages.includes(page) && (
          <div className="actions">
            <Menu label="Copy">
              <Copy text={location.href}>Link to this page</Copy>
              <Copy text={page.needs === "operator" ? page.command : ofOrg(page.command, session.org)}>Command</Copy>
              <Copy text={`curl '${location.origin}/api/v1/${page.name}'`}>curl command</Copy>
            </Menu>
          </div>
        )}
      </div>
      <Tabs base="/organisation" tabs={pages} chosen={tab} label="Pages of the organisation" />
      {page === undefined ? (
        <Empty title="Page not found">Check the address, or choose a page above.</Empty>
      ) : pages.includes(page) ? (
        <page.Component />
      ) : (
        <Empty title="Not allowed">{page.needs === "operator" ? "Only the operator of the installation may see this page, while acting for the org default." : `You lack the scope ${page.needs}. An admin of the organisation can give it to you.`}</Empty>
      )}
    </section>
  );
}
