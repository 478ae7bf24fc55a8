package secret

import (
	"context"
	"errors"
	"os"
	"path/filepath"

	"github.com/godbus/dbus/v5"
)

// The Secret Service API (specifications.freedesktop.org/secret-service), without the calls that may show a dialog:
// Unlock is never called, and a prompt that the service offers is never started.
const (
	busName        = "org.freedesktop.secrets"
	servicePath    = dbus.ObjectPath("/org/freedesktop/secrets")
	defaultPath    = dbus.ObjectPath("/org/freedesktop/secrets/aliases/default")
	serviceFace    = "org.freedesktop.Secret.Service"
	collectionFace = "org.freedesktop.Secret.Collection"
	itemFace       = "org.freedesktop.Secret.Item"
	noPrompt       = dbus.ObjectPath("/")
)

// secretService is the Secret Service on one session bus.
type secretService struct{ address string }

// systemRing takes the session bus from the environment only. The search of the bus library is not used: it may start a
// bus that nobody ends.
func systemRing(getenv func(string) string) ring {
	address := getenv("DBUS_SESSION_BUS_ADDRESS")
	if address == "" || address == "autolaunch:" {
		address = ""
		if socket := filepath.Join(getenv("XDG_RUNTIME_DIR"), "bus"); filepath.IsAbs(socket) {
			if _, err := os.Stat(socket); err == nil {
				address = "unix:path=" + dbus.EscapeBusAddressValue(socket)
			}
		}
	}
	return secretService{address}
}

// wireSecret is the struct Secret of the API, with the algorithm "plain": the bus is a socket of this user.
type wireSecret struct {
	Session     dbus.ObjectPath
	Parameters  []byte
	Value       []byte
	ContentType string
}

// open connects and opens a session; the caller closes the connection, which ends the session.
func (s secretService) open(ctx context.Context) (*dbus.Conn, dbus.ObjectPath, error) {
	if s.address == "" {
		return nil, "", errNoRing
	}
	conn, err := dbus.Connect(s.address, dbus.WithContext(ctx))
	if err != nil {
		return nil, "", errors.Join(errNoRing, err)
	}
	var output dbus.Variant
	var session dbus.ObjectPath
	call := conn.Object(busName, servicePath).CallWithContext(ctx, serviceFace+".OpenSession", 0, "plain", dbus.MakeVariant(""))
	if err := call.Store(&output, &session); err != nil {
		_ = conn.Close()
		return nil, "", busFault(err)
	}
	return conn, session, nil
}

// busFault says which of our errors an error of the bus is.
func busFault(err error) error {
	if e, ok := errors.AsType[dbus.Error](err); ok {
		switch e.Name {
		case "org.freedesktop.DBus.Error.ServiceUnknown", "org.freedesktop.DBus.Error.NameHasNoOwner", "org.freedesktop.DBus.Error.Spawn.ExecFailed":
			return errNoRing
		case "org.freedesktop.Secret.Error.IsLocked":
			return errLocked
		case "org.freedesktop.Secret.Error.NoSuchObject":
			return errNoItem
		case "org.freedesktop.DBus.Error.AccessDenied", "org.freedesktop.DBus.Error.AuthFailed":
			return errDenied
		}
		return errors.New(e.Name) // its text is the service's and may say anything
	}
	return err
}

// get searches by the attributes of the two usual libraries: username (Python keyring, Go programs such as gh) and
// account (libsecret bindings of Node).
func (s secretService) get(ctx context.Context, service, account string) (string, error) {
	conn, session, err := s.open(ctx)
	if err != nil {
		return "", err
	}
	defer func() { _ = conn.Close() }() // nothing is left to say
	locked := false
	for _, attribute := range []string{"username", "account"} {
		var free, shut []dbus.ObjectPath
		call := conn.Object(busName, servicePath).CallWithContext(ctx, serviceFace+".SearchItems", 0, map[string]string{"service": service, attribute: account})
		if err := call.Store(&free, &shut); err != nil {
			return "", busFault(err)
		}
		locked = locked || len(shut) > 0
		if len(free) == 0 {
			continue
		}
		var value wireSecret
		if err := conn.Object(busName, free[0]).CallWithContext(ctx, itemFace+".GetSecret", 0, session).Store(&value); err != nil {
			return "", busFault(err)
		}
		return string(value.Value), nil
	}
	if locked {
		return "", errLocked
	}
	// A locked collection may not even tell what it holds.
	if shut, err := s.locked(ctx, conn); err == nil && shut {
		return "", errLocked
	}
	return "", errNoItem
}

// locked says whether the collection for new items is locked.
func (s secretService) locked(ctx context.Context, conn *dbus.Conn) (bool, error) {
	var v dbus.Variant
	err := conn.Object(busName, defaultPath).CallWithContext(ctx, "org.freedesktop.DBus.Properties.Get", 0, collectionFace, "Locked").Store(&v)
	if err != nil {
		return false, busFault(err)
	}
	shut, _ := v.Value().(bool)
	return shut, nil
}

func (s secretService) set(ctx context.Context, service, account, value string) error {
	conn, session, err := s.open(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }() // nothing is left to say
	shut, err := s.locked(ctx, conn)
	if err != nil {
		return err
	}
	if shut {
		return errLocked
	}
	properties := map[string]dbus.Variant{
		itemFace + ".Label":      dbus.MakeVariant("mcpx: " + service + " " + account),
		itemFace + ".Attributes": dbus.MakeVariant(map[string]string{"service": service, "username": account}),
	}
	var item, prompt dbus.ObjectPath
	call := conn.Object(busName, defaultPath).CallWithContext(ctx, collectionFace+".CreateItem", 0, properties,
		wireSecret{Session: session, Value: []byte(value), Parameters: []byte{}, ContentType: "text/plain; charset=utf8"}, true)
	if err := call.Store(&item, &prompt); err != nil {
		return busFault(err)
	}
	if prompt != noPrompt {
		return errLocked
	}
	return nil
}
