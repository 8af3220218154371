// Gradio sends files without saying which tab they come from; this adds the key of its session.
(() => {
  const send = window.fetch;
  const key = () => document.querySelector("#session span")?.textContent ?? "";
  window.fetch = async (resource, options = {}) => {
    const url = new URL(resource.url ?? resource, location.href);
    if (url.origin !== location.origin || !url.pathname.endsWith("/gradio_api/upload")) {
      return send(resource, options);
    }
    while (!key()) await new Promise((resolve) => setTimeout(resolve, 50));
    const headers = new Headers(options.headers);
    headers.set("x-ipl-session", key());
    return send(resource, { ...options, headers });
  };
})();
