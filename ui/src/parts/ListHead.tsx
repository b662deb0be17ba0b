/** The heading of a list, with a menu that copies a link, a command or a curl command for the same list. */
import type { ReactNode } from "react";
import { Copy } from "./Copy";
import { Menu } from "./Menu";

export function ListHead({ title, command, url, children }: { title: string; command: string; url: string; children?: ReactNode }) {
  return (
    <div className="view-head">
      <h1>{title}</h1>
      <div className="actions">
        <Menu label="Copy">
          <Copy text={location.href}>Link to this list</Copy>
          <Copy text={command}>Command</Copy>
          <Copy text={`curl '${url}'`}>curl command</Copy>
        </Menu>
        {children}
      </div>
    </div>
  );
}
