package httpedge

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"mcpx/internal/auth"
)

// TestDocuments: a document is loaded once and believed as far as it goes; nothing is loaded from this machine.
func TestDocuments(t *testing.T) {
	var loads atomic.Int32
	var base string
	documents := map[string]string{
		"/good":     `{"client_id":"BASE/good","client_name":"Chat","redirect_uris":["https://chat.example/cb"]}`,
		"/other":    `{"client_id":"BASE/good","client_name":"Chat","redirect_uris":["https://chat.example/cb"]}`,
		"/secret":   `{"client_id":"BASE/secret","redirect_uris":["https://chat.example/cb"],"token_endpoint_auth_method":"client_secret_post"}`,
		"/nowhere":  `{"client_id":"BASE/nowhere","redirect_uris":[]}`,
		"/evil":     `{"client_id":"BASE/evil","redirect_uris":["javascript:alert(1)"]}`,
		"/none":     `no JSON`,
		"/large":    `{"client_id":"` + strings.Repeat("x", maxDocument) + `"}`,
		"/redirect": "", "/text": `{}`, "/missing": "",
	}
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		loads.Add(1)
		switch r.URL.Path {
		case "/redirect":
			http.Redirect(w, r, "/good", http.StatusFound)
			return
		case "/missing":
			http.NotFound(w, r)
			return
		case "/text":
			w.Header().Set("Content-Type", "text/plain")
		default:
			w.Header().Set("Content-Type", "application/json; charset=utf-8")
		}
		_, _ = fmt.Fprint(w, strings.ReplaceAll(documents[r.URL.Path], "BASE", base))
	}))
	defer server.Close()
	base = server.URL
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	loader := func(outside func(netip.Addr) bool) *Documents {
		d := NewDocuments(func() time.Time { return now }, outside)
		d.client.Transport.(*http.Transport).TLSClientConfig = server.Client().Transport.(*http.Transport).TLSClientConfig
		return d
	}
	d := loader(func(netip.Addr) bool { return true })
	for range 3 {
		c, err := d.Client(t.Context(), base+"/good")
		if err != nil || c.Name != "Chat" || !c.Redirect("https://chat.example/cb") || c.ID != base+"/good" {
			t.Fatalf("%+v, %v", c, err)
		}
	}
	if n := loads.Load(); n != 1 {
		t.Errorf("it was loaded %d times", n)
	}
	now = now.Add(documentLasts)
	if _, err := d.Client(t.Context(), base+"/good"); err != nil || loads.Load() != 2 {
		t.Errorf("later: %d times, %v", loads.Load(), err)
	}
	for path := range documents {
		if path == "/good" {
			continue
		}
		if c, err := d.Client(t.Context(), base+path); !errors.As(err, new(*auth.Denial)) {
			t.Errorf("%s: %+v, %v", path, c, err)
		}
	}
	for _, id := range []string{"http://chat.example/x", "https:///x", "https://chat.example", "https://chat.example/", "https://chat.example/a/../b", "https://u@chat.example/x", "https://chat.example/x#y", "https://chat.example/" + strings.Repeat("x", 600)} {
		if _, err := d.Client(t.Context(), id); !errors.As(err, new(*auth.Denial)) {
			t.Errorf("%.60s: %v", id, err)
		}
	}
	before := loads.Load()
	inside := loader(auth.Outside)
	_, port, _ := strings.Cut(strings.TrimPrefix(base, "https://"), ":")
	for _, host := range []string{"127.0.0.1", "localhost", "[::1]", "[::ffff:127.0.0.1]", "0.0.0.0", "127.1"} {
		if _, err := inside.Client(t.Context(), "https://"+host+":"+port+"/good"); !errors.As(err, new(*auth.Denial)) {
			t.Errorf("%s: %v", host, err)
		}
	}
	if n := loads.Load(); n != before {
		t.Errorf("this machine was looked at %d times", n-before)
	}
	for range maxLoads {
		if !d.loads.TryAcquire(1) {
			t.Fatal("a load was not let go")
		}
	}
	if _, err := d.Client(t.Context(), base+"/busy"); !strings.Contains(fmt.Sprint(err), string(auth.TemporarilyUnavailable)) {
		t.Errorf("when many are loaded: %v", err)
	}
}
