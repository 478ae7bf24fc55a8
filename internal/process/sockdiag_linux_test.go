package process

import (
	"errors"
	"net"
	"os"
	"strings"
	"testing"
)

// connected gives both ends of a TCP connection; the accepting one is ours.
func connected(t *testing.T, listen, dial string) (ours, theirs net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", listen)
	if err != nil {
		t.Skipf("%s cannot be listened on here: %v", listen, err)
	}
	t.Cleanup(func() { _ = l.Close() })
	_, port, _ := net.SplitHostPort(l.Addr().String())
	theirs, err = net.Dial("tcp", net.JoinHostPort(dial, port))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = theirs.Close() })
	if ours, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ours.Close() })
	return ours, theirs
}

func TestPeerUID(t *testing.T) {
	for name, at := range map[string][2]string{
		"IPv4": {"127.0.0.1:0", "127.0.0.1"}, "IPv6": {"[::1]:0", "::1"}, "IPv4 at a dual listener": {"[::]:0", "127.0.0.1"},
		"another loopback address": {"127.0.0.2:0", "127.0.0.2"},
	} {
		t.Run(name, func(t *testing.T) {
			ours, _ := connected(t, at[0], at[1])
			if uid, err := PeerUID(ours); err != nil || uid != os.Geteuid() {
				t.Errorf("PeerUID = %d, %v; want %d", uid, err, os.Geteuid())
			}
		})
	}
	t.Run("closed", func(t *testing.T) {
		ours, theirs := connected(t, "127.0.0.1:0", "127.0.0.1")
		if err := theirs.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := ours.Read(make([]byte, 1)); err == nil {
			t.Fatal("no EOF")
		}
		// Both sides: what is left is in time-wait and belongs to nobody.
		if err := ours.Close(); err != nil {
			t.Fatal(err)
		}
		if uid, err := PeerUID(ours); !errors.Is(err, ErrUnknown) {
			t.Errorf("PeerUID = %d, %v; want ErrUnknown", uid, err)
		}
	})
	t.Run("no TCP", func(t *testing.T) {
		a, b := net.Pipe()
		defer a.Close()
		defer b.Close()
		if _, err := PeerUID(a); !errors.Is(err, ErrUnknown) {
			t.Errorf("error %v, want ErrUnknown", err)
		}
	})
}

func TestPortHolder(t *testing.T) {
	for _, at := range []string{"127.0.0.1:0", "[::1]:0"} {
		l, err := net.Listen("tcp", at)
		if err != nil {
			t.Logf("%s cannot be listened on here: %v", at, err)
			continue
		}
		pid, name, ok := PortHolder(l.Addr().String())
		if !ok || pid != os.Getpid() || name == "" {
			t.Errorf("%s: PortHolder = %d, %q, %v; want us", at, pid, name, ok)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		if pid, _, ok := PortHolder(l.Addr().String()); ok {
			t.Errorf("%s: %d holds a free port", at, pid)
		}
	}
	if _, _, ok := PortHolder("nonsense"); ok {
		t.Error("nonsense has a holder")
	}
}

func TestParseStat(t *testing.T) {
	line := "42 (a (b) c) d) S 7 40 39 0 -1 4194304 1 2 3 4 5 6 7 8 20 0 1 0 123456 999 1 18446744073709551615"
	s, err := parseStat(42, []byte(line))
	if err != nil {
		t.Fatal(err)
	}
	if s != (stat{pid: 42, ppid: 7, pgid: 40, sid: 39, state: 'S', start: 123456}) {
		t.Errorf("stat %+v", s)
	}
	for _, bad := range []string{"", "42 (x", "42 (x) S 1 2", strings.Replace(line, "123456", "soon", 1)} {
		if _, err := parseStat(42, []byte(bad)); err == nil {
			t.Errorf("%q was accepted", bad)
		}
	}
}

func FuzzParseDiag(f *testing.F) {
	f.Add(diagRequest(diagSock{}, 1, true))
	f.Add([]byte{20, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		var found []diagSock
		if _, err := parseDiag(b, &found); err == nil && len(found)*diagMsgLen > len(b) {
			t.Errorf("%d sockets in %d bytes", len(found), len(b))
		}
	})
}

func TestMemoryOf(t *testing.T) {
	m, err := MemoryOf(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if m.PSS <= 0 || m.RSS < m.PSS || m.RSS%1024 != 0 {
		t.Errorf("memory %+v", m)
	}
	if _, err := parseRollup([]byte("Rss: many kB\n")); err == nil {
		t.Error("a number that is none was accepted")
	}
}
