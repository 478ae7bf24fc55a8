package secret

import (
	"bufio"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/godbus/dbus/v5"

	"mcpx/internal/fault"
)

// startBus starts a session bus of this test.
func startBus(t *testing.T) (address string) {
	t.Helper()
	program, err := exec.LookPath("dbus-daemon")
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal("dbus-daemon is not installed")
		}
		t.Skip("skip: dbus-daemon is not installed")
	}
	cmd := exec.Command(program, "--session", "--nofork", "--print-address", "--address=unix:path="+filepath.Join(t.TempDir(), "bus"))
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(line)
}

// service plays the Secret Service: one collection, items by their attributes.
type service struct {
	conn *dbus.Conn

	mu     sync.Mutex
	items  []storedItem
	shut   bool
	prompt bool // CreateItem wants one
	asked  int  // calls of Unlock and Prompt
	slow   chan struct{}
}

type storedItem struct {
	attributes map[string]string
	value      []byte
}

func itemPath(i int) dbus.ObjectPath {
	return dbus.ObjectPath("/org/freedesktop/secrets/collection/login/" + string(rune('a'+i)))
}

func (s *service) OpenSession(string, dbus.Variant) (dbus.Variant, dbus.ObjectPath, *dbus.Error) {
	s.mu.Lock()
	slow := s.slow
	s.mu.Unlock()
	if slow != nil {
		<-slow
	}
	return dbus.MakeVariant(""), "/org/freedesktop/secrets/session/1", nil
}

func (s *service) SearchItems(want map[string]string) (free, shut []dbus.ObjectPath, _ *dbus.Error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, item := range s.items {
		fits := true
		for k, v := range want {
			fits = fits && item.attributes[k] == v
		}
		switch {
		case fits && s.shut:
			shut = append(shut, itemPath(i))
		case fits:
			free = append(free, itemPath(i))
		}
	}
	return free, shut, nil
}

func (s *service) Unlock([]dbus.ObjectPath) ([]dbus.ObjectPath, dbus.ObjectPath, *dbus.Error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked++
	return nil, "/prompt", nil
}

// collection and item are the other objects.
type (
	collection struct{ *service }
	item       struct {
		*service
		n int
	}
)

func (c collection) Get(_, property string) (dbus.Variant, *dbus.Error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if property != "Locked" {
		return dbus.Variant{}, dbus.NewError("org.freedesktop.DBus.Error.InvalidArgs", nil)
	}
	return dbus.MakeVariant(c.shut), nil
}

func (c collection) CreateItem(properties map[string]dbus.Variant, value wireSecret, _ bool) (dbus.ObjectPath, dbus.ObjectPath, *dbus.Error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.prompt {
		return "/", "/prompt", nil
	}
	var attributes map[string]string
	if err := dbus.Store([]any{properties[itemFace+".Attributes"]}, &attributes); err != nil {
		return "", "", dbus.MakeFailedError(err)
	}
	c.items = append(c.items, storedItem{attributes, value.Value})
	n := len(c.items) - 1
	if err := c.conn.Export(item{c.service, n}, itemPath(n), itemFace); err != nil {
		return "", "", dbus.MakeFailedError(err)
	}
	return itemPath(n), "/", nil
}

func (i item) GetSecret(session dbus.ObjectPath) (wireSecret, *dbus.Error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.shut {
		return wireSecret{}, dbus.NewError("org.freedesktop.Secret.Error.IsLocked", []any{"hunter2"})
	}
	return wireSecret{Session: session, Parameters: []byte{}, Value: i.items[i.n].value, ContentType: "text/plain"}, nil
}

func playService(t *testing.T, address string) *service {
	t.Helper()
	conn, err := dbus.Connect(address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	s := &service{conn: conn}
	for _, err := range []error{
		conn.Export(s, servicePath, serviceFace),
		conn.Export(collection{s}, defaultPath, collectionFace),
		conn.Export(collection{s}, defaultPath, "org.freedesktop.DBus.Properties"),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if reply, err := conn.RequestName(busName, dbus.NameFlagDoNotQueue); err != nil || reply != dbus.RequestNameReplyPrimaryOwner {
		t.Fatal(reply, err)
	}
	return s
}

func on(address string) ring {
	return systemRing(func(name string) string { return map[string]string{"DBUS_SESSION_BUS_ADDRESS": address}[name] })
}

// TestSecretService speaks to a Secret Service on a real bus. It never unlocks and never prompts.
func TestSecretService(t *testing.T) {
	address := startBus(t)
	r := on(address)
	if _, err := r.get(t.Context(), "s", "a"); !errors.Is(err, errNoRing) {
		t.Errorf("a bus without the service: %v", err)
	}
	s := playService(t, address)
	if _, err := r.get(t.Context(), "s", "a"); !errors.Is(err, errNoItem) {
		t.Errorf("no item: %v", err)
	}
	if err := r.set(t.Context(), "s", "a", hidden); err != nil {
		t.Fatal(err)
	}
	if got, err := r.get(t.Context(), "s", "a"); err != nil || got != hidden {
		t.Errorf("an item: %v", err)
	}
	s.mu.Lock()
	s.items = append(s.items, storedItem{map[string]string{"service": "node", "account": "ada"}, []byte("of node")})
	s.mu.Unlock()
	if err := s.conn.Export(item{s, 1}, itemPath(1), itemFace); err != nil {
		t.Fatal(err)
	}
	if got, err := r.get(t.Context(), "node", "ada"); err != nil || got != "of node" {
		t.Errorf("an item with account: %q, %v", got, err)
	}
	s.mu.Lock()
	s.prompt = true
	s.mu.Unlock()
	if err := r.set(t.Context(), "s", "b", hidden); !errors.Is(err, errLocked) {
		t.Errorf("a service that wants to ask: %v", err)
	}
	s.mu.Lock()
	s.shut = true
	s.mu.Unlock()
	for _, account := range []string{"a", "unknown"} {
		if _, err := r.get(t.Context(), "s", account); !errors.Is(err, errLocked) {
			t.Errorf("locked, %s: %v", account, err)
		}
	}
	if err := r.set(t.Context(), "s", "a", "x"); !errors.Is(err, errLocked) {
		t.Errorf("locked, set: %v", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.asked != 0 {
		t.Errorf("somebody was asked %d times", s.asked)
	}
}

// TestSecretServiceHangs: a service that does not answer is given up in time, with nothing left over (TestMain looks).
func TestSecretServiceHangs(t *testing.T) {
	address := startBus(t)
	s := playService(t, address)
	slow := make(chan struct{})
	t.Cleanup(func() { close(slow) })
	s.mu.Lock()
	s.slow = slow
	s.mu.Unlock()
	r := newRing(on(address), 200*time.Millisecond)
	begin := time.Now()
	for range 2 {
		_, err := r.get(t.Context(), "s", "a")
		wantFault(t, "a service that hangs", err, fault.Unavailable, "keyring-unavailable", "credential set")
	}
	if took := time.Since(begin); took > 5*time.Second {
		t.Errorf("it took %s", took)
	}
}

// TestNoBus: without a bus of the session nothing is started and nothing is searched for.
func TestNoBus(t *testing.T) {
	dir := t.TempDir()
	for name, env := range map[string]map[string]string{
		"nothing": {}, "autolaunch": {"DBUS_SESSION_BUS_ADDRESS": "autolaunch:"}, "no socket": {"XDG_RUNTIME_DIR": dir}, "nobody listens": {"DBUS_SESSION_BUS_ADDRESS": "unix:path=" + dir + "/none"},
	} {
		if _, err := systemRing(func(v string) string { return env[v] }).get(t.Context(), "s", "a"); !errors.Is(err, errNoRing) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := os.WriteFile(dir+"/bus", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	found := systemRing(func(v string) string { return map[string]string{"XDG_RUNTIME_DIR": dir}[v] })
	if s, ok := found.(secretService); !ok || s.address != "unix:path="+dir+"/bus" {
		t.Errorf("the bus of the session: %+v", found)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := found.get(ctx, "s", "a"); err == nil {
		t.Error("a file was taken for a bus")
	}
}
