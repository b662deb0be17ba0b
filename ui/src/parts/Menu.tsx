/** A dropdown menu. It is positioned on the page, so that a scrolling table does not clip it. */
import { useEffect, useRef, useState, type CSSProperties, type ReactNode } from "react";

const GAP = 4;
const WIDTH = 230;

export function Menu({ label, name, children }: { label: ReactNode; name?: string; children: ReactNode }) {
  const [at, setAt] = useState<CSSProperties | null>(null);
  const ref = useRef<HTMLDivElement>(null);
  const open = at !== null;
  useEffect(() => {
    if (!open) return;
    const leave = (event: Event) => {
      if (event instanceof KeyboardEvent ? event.key === "Escape" : !ref.current?.contains(event.target as Node)) setAt(null);
    };
    const kinds = ["mousedown", "keydown", "scroll"];
    kinds.forEach((kind) => document.addEventListener(kind, leave, true));
    return () => kinds.forEach((kind) => document.removeEventListener(kind, leave, true));
  }, [open]);
  return (
    <div className="menu" ref={ref}>
      <button type="button" aria-expanded={open} aria-label={name} onClick={(event) => setAt(open ? null : below(event.currentTarget))}>
        {label}
        <svg viewBox="0 0 16 16" className="icon" aria-hidden>
          <path d="M4.5 6.5L8 10l3.5-3.5" />
        </svg>
      </button>
      {open && (
        <div className="menu-items" style={at}>
          {children}
        </div>
      )}
    </div>
  );
}

function below(button: HTMLElement): CSSProperties {
  const { bottom, left, right } = button.getBoundingClientRect();
  const top = bottom + GAP;
  return right > WIDTH ? { top, right: document.documentElement.clientWidth - right } : { top, left };
}
