import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { App } from "./App";
import { Problem } from "./api/client";
import { logInFromLink } from "./api/session";
import { applyTheme } from "./parts/theme";
import { fetchViews } from "./views";
import "./style/index.css";

applyTheme();
localStorage.removeItem("windlass.key"); // earlier versions kept a key there
void logInFromLink();
window.addEventListener("load", fetchViews);

/** Retry server errors and lost connections, not refusals. */
const retry = (count: number, error: Error) => count < 2 && (!(error instanceof Problem) || error.status >= 500);
const client = new QueryClient({ defaultOptions: { queries: { retry, staleTime: 1000, refetchOnWindowFocus: true } } });

createRoot(document.getElementById("root")!).render(
  <StrictMode>
    <QueryClientProvider client={client}>
      <App />
    </QueryClientProvider>
  </StrictMode>,
);
