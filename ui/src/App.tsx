/** The frame around every view: menu, search, connection state, theme, keyboard shortcuts. */
import { Component, Suspense, useEffect, useRef, useState, type ReactNode } from "react";
import { Link, Route, Switch, useLocation } from "wouter";
import { actFor, api, Problem } from "./api/client";
import { isLoggedIn, SessionContext, useSessionQuery, type Session } from "./api/session";
import { Account } from "./parts/Account";
import { Empty, Trouble } from "./parts/Feedback";
import { Help, useKeyboard } from "./parts/keyboard";
import { Pulse } from "./parts/Pulse";
import { ThemeButton } from "./parts/theme";
import { isId } from "./parts/words";
import { Login } from "./views/login/Login";
import { MENU, VIEWS } from "./views";

export function App() {
  const session = useSessionQuery();
  const answer = session.data;
  if (answer && isLoggedIn(answer)) {
    actFor(answer.org);
    return (
      <SessionContext value={answer}>
        <Frame key={`${answer.org} ${answer.actor}`} session={answer} />
      </SessionContext>
    );
  }
  actFor(null);
  return (
    <>
      <header className="top">
        <Brand />
        <span className="search" />
        <ThemeButton />
      </header>
      <main id="main">{answer ? <Login issuer={answer.issuer} /> : session.error ? <Trouble error={session.error} /> : <div className="loading">loading</div>}</main>
    </>
  );
}

/** The frame for one caller and org. Another caller or org gets a new frame, so that no state is carried over. */
function Frame({ session }: { session: Session }) {
  const [help, setHelp] = useState(false);
  const search = useRef<HTMLInputElement>(null);
  const [place] = useLocation();
  useKeyboard({ help: () => setHelp(true), search: () => search.current?.focus() });
  useEffect(() => {
    document.querySelector(".side [aria-current]")?.scrollIntoView({ block: "nearest", inline: "nearest" }); // the menu scrolls on narrow screens
  }, [place]);
  return (
    <>
      <a className="jump" href="#main">
        Skip to content
      </a>
      <header className="top">
        <Brand />
        <Search field={search} />
        <Pulse />
        <Account />
        <ThemeButton />
        <button type="button" className="icon-button" onClick={() => setHelp(true)} aria-label="Keyboard shortcuts" title="Keyboard shortcuts (?)">
          ?
        </button>
      </header>
      <nav className="side" aria-label="Views">
        {MENU.map((view) => (
          <Link key={view.path} href={view.path} aria-current={isAt(place, view.path) ? "page" : undefined}>
            {view.title}
            {view.Badge && session.scopes.includes("read") && <view.Badge />}
          </Link>
        ))}
      </nav>
      <main id="main" tabIndex={-1}>
        {session.scopes.includes("read") ? (
          <Boundary key={place.split("/").slice(0, 3).join("/")}>
            <Suspense fallback={<div className="loading">loading</div>}>
              <Views />
            </Suspense>
          </Boundary>
        ) : (
          <Empty title="Not allowed">Your key lacks the scope read, which all pages of the dashboard need.</Empty>
        )}
      </main>
      {help && <Help onClose={() => setHelp(false)} />}
    </>
  );
}

function Brand() {
  return (
    <Link href="/" className="brand">
      <svg viewBox="0 0 32 32" aria-hidden>
        <circle cx="16" cy="16" r="6.5" />
        <path d="M16 3v6.5M16 22.5V29M3 16h6.5M22.5 16H29M7 7l4.4 4.4M20.6 20.6L25 25M25 7l-4.4 4.4M11.4 20.6L7 25" />
      </svg>
      Windlass
    </Link>
  );
}

function Views() {
  return (
    <Switch>
      {VIEWS.map(({ path, Component, title }) => (
        <Route key={path} path={path}>
          {(params) => (
            <Titled title={title} detail={Object.values(params)[0]}>
              <Component params={params as Record<string, string | undefined>} />
            </Titled>
          )}
        </Route>
      ))}
      <Route>
        <Empty title="Page not found">Check the address, or choose a view from the menu.</Empty>
      </Route>
    </Switch>
  );
}

function Titled({ title, detail, children }: { title: string; detail: string | undefined; children: ReactNode }) {
  useEffect(() => {
    document.title = `${detail ? `${decodeURIComponent(detail)} · ` : ""}${title} · Windlass`;
  }, [title, detail]);
  return <>{children}</>;
}

function Search({ field }: { field: React.RefObject<HTMLInputElement | null> }) {
  const [, go] = useLocation();
  const look = async (event: React.FormEvent) => {
    event.preventDefault();
    const text = field.current?.value.trim() ?? "";
    if (!text) return;
    field.current?.blur();
    go(isId(text) ? `/${await nounOf(text)}/${text}` : `/runs?text=${encodeURIComponent(text)}`);
  };
  return (
    <form className="search" role="search" onSubmit={(event) => void look(event)}>
      <input ref={field} type="search" placeholder="Search runs (id, workflow, label) or jobs (id)" aria-label="Search runs and jobs" />
      <kbd aria-hidden>/</kbd>
    </form>
  );
}

/** Return the first part of the path for an id of a run or a job. If there is no such run, the id is that of a job. */
async function nounOf(id: string): Promise<string> {
  try {
    await api.GET("/api/v1/runs/{run_id}", { params: { path: { run_id: id } } });
  } catch (error) {
    if (error instanceof Problem && error.status === 404) return "jobs";
  }
  return "runs";
}

function isAt(place: string, path: string): boolean {
  return path === "/" ? place === "/" : place === path || place.startsWith(`${path}/`);
}

/** Contains an error to the view that raised it. */
class Boundary extends Component<{ children: ReactNode }, { error: unknown }> {
  override state = { error: null as unknown };
  static getDerivedStateFromError(error: unknown) {
    return { error };
  }
  override render() {
    return this.state.error ? <Trouble error={this.state.error} /> : this.props.children;
  }
}
