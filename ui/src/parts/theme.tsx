/** Light or dark theme: follows the system unless the user chooses. */
import { useState } from "react";

const PLACE = "windlass.theme";
const NEXT = { system: "light", light: "dark", dark: "system" } as const;
type Theme = keyof typeof NEXT;

function chosen(): Theme {
  const found = localStorage.getItem(PLACE);
  return found === "light" || found === "dark" ? found : "system";
}

export function applyTheme(theme: Theme = chosen()): void {
  if (theme === "system") delete document.documentElement.dataset["theme"];
  else document.documentElement.dataset["theme"] = theme;
}

export function ThemeButton() {
  const [theme, setTheme] = useState(chosen);
  const turn = () => {
    const next = NEXT[theme];
    localStorage.setItem(PLACE, next);
    applyTheme(next);
    setTheme(next);
  };
  return (
    <button type="button" className="icon-button" onClick={turn} aria-label={`Theme: ${theme}`} title={`Theme: ${theme}`}>
      <svg viewBox="0 0 16 16" className="icon" aria-hidden>
        {theme === "dark" ? (
          <path d="M12.8 9.6A5.4 5.4 0 1 1 6.4 3.2a4.4 4.4 0 0 0 6.4 6.4z" />
        ) : theme === "light" ? (
          <path d="M8 5.2a2.8 2.8 0 1 0 .01 0M8 1.5v1.4M8 13.1v1.4M1.5 8h1.4M13.1 8h1.4M3.4 3.4l1 1M11.6 11.6l1 1M12.6 3.4l-1 1M4.4 11.6l-1 1" />
        ) : (
          <path d="M8 2.5a5.5 5.5 0 1 0 .01 0M8 2.5v11M8 5l4-1M8 8h5.4M8 11l4 1" />
        )}
      </svg>
    </button>
  );
}
