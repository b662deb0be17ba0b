/** Keyboard shortcuts: `/` searches, `g` and a letter opens a view, `?` shows help. Inactive in text fields. */
import { useEffect, useRef } from "react";
import { useLocation } from "wouter";
import { MENU } from "../views";
import { Dialog } from "./Dialog";

const PATIENCE = 1500; // ms after g

export function useKeyboard(on: { help: () => void; search: () => void }) {
  const [, go] = useLocation();
  const since = useRef(-Infinity); // when g was pressed
  useEffect(() => {
    const pressed = (event: KeyboardEvent) => {
      const target = event.target as HTMLElement;
      if (event.ctrlKey || event.metaKey || event.altKey || target.closest("input, textarea, select, dialog, [contenteditable]")) return;
      const goes = event.timeStamp - since.current < PATIENCE ? MENU.find((view) => view.letter === event.key) : undefined;
      since.current = event.key === "g" ? event.timeStamp : -Infinity;
      if (goes) go(goes.path);
      else if (event.key === "/") on.search();
      else if (event.key === "?") on.help();
      else return;
      event.preventDefault();
    };
    document.addEventListener("keydown", pressed);
    return () => document.removeEventListener("keydown", pressed);
  });
}

export function Help({ onClose }: { onClose: () => void }) {
  const keys: [string[], string][] = [
    [["/"], "search runs and jobs"],
    ...MENU.map((view): [string[], string] => [["g", view.letter ?? ""], view.title]),
    [["Esc"], "close the dialog or panel"],
    [["?"], "show this help"],
  ];
  return (
    <Dialog title="Keyboard" onClose={onClose}>
      <dl className="keys">
        {keys.map(([strokes, meaning]) => (
          <div key={meaning}>
            <dt>
              {strokes.map((stroke) => (
                <kbd key={stroke}>{stroke}</kbd>
              ))}
            </dt>
            <dd>{meaning}</dd>
          </div>
        ))}
      </dl>
      <p className="dim">
        All of this is also available from a terminal (<code>windlass --help</code>) and over HTTP (<a href="/docs">API reference</a>).
      </p>
    </Dialog>
  );
}
