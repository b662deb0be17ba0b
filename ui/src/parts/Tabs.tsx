/** Tabs, each with its own URL. */
import { Link } from "wouter";

export interface Tab {
  name: string; // in the URL; that of the first tab is omitted
  title: string;
}

export function Tabs({ base, tabs, chosen, label, query = "" }: { base: string; tabs: Tab[]; chosen: string; label: string; query?: string }) {
  return (
    <nav className="tabs" aria-label={label}>
      {tabs.map((tab, n) => (
        <Link key={tab.name} href={`${n === 0 ? base : `${base}/${tab.name}`}${query}`} aria-current={tab.name === chosen ? "page" : undefined}>
          {tab.title}
        </Link>
      ))}
    </nav>
  );
}
