package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"mcpx/internal/api"
	"mcpx/internal/catalog"
	"mcpx/internal/converge"
	"mcpx/internal/daemon"
	"mcpx/internal/fault"
	"mcpx/internal/lazyregexp"
)

// hostFindings tells what is wrong with what mcpx has on this machine, daemon or not. It only reads.
func (e *Env) hostFindings(ctx context.Context, paths api.Paths) []api.Finding {
	var all []api.Finding
	all = append(all, e.settingsFindings(paths)...)
	if err := daemon.CheckDatabase(ctx, paths, e.Now); err != nil {
		f := fault.From(err)
		all = append(all, api.Finding{
			Code: "database-refused", Severity: converge.WeightBlocker, Subject: "database", Path: paths.Database(), Text: f.Error(), Hint: f.Hint,
		})
	}
	all = append(all, modeFindings(paths)...)
	all = append(all, backupFindings(filepath.Join(paths.State, "backups"))...)
	return append(all, e.serviceFindings()...)
}

// settingsFindings tells whether the next start would refuse the settings, and who has the port while no daemon runs.
func (e *Env) settingsFindings(paths api.Paths) []api.Finding {
	settings, err := daemon.LoadSettings(paths.Settings(), e.Getenv)
	if err == nil {
		err = daemon.CheckHome(e.Getenv)
	}
	if err != nil {
		f := fault.From(err)
		return []api.Finding{{
			Code: "settings-refused", Severity: converge.WeightBlocker, Subject: "settings", Path: paths.Settings(), Text: f.Error(), Hint: f.Hint,
		}}
	}
	if e.daemonAnswers(paths) || !answers(settings.ListenerAddress) {
		return nil
	}
	return []api.Finding{{
		Code: "port-not-ours", Severity: converge.WeightBlocker, Subject: "listener", Text: settings.ListenerAddress + " is answered by another program",
		Hint: "stop that program, or give mcpx another port", Command: "mcpx daemon start --listen 127.0.0.1:PORT",
	}}
}

// knock is how long a program on this machine may take to accept a connection.
const knock = time.Second

func answers(address string) bool {
	conn, err := net.DialTimeout("tcp", address, knock)
	if err != nil {
		return false
	}
	_ = conn.Close() // nothing was said
	return true
}

func (e *Env) daemonAnswers(paths api.Paths) bool {
	conn, err := net.DialTimeout("unix", paths.Socket(), knock)
	if err != nil {
		return false
	}
	_ = conn.Close() // nothing was said
	return true
}

// maxNamedFiles bounds the files that one finding names.
const maxNamedFiles = 3

// modeFindings tells of files of mcpx that others may read or write. A directory that is closed closes what is in it.
func modeFindings(paths api.Paths) []api.Finding {
	if runtime.GOOS == "windows" { // modes say nothing there
		return nil
	}
	var all []api.Finding
	for _, root := range []string{paths.Config, paths.State, paths.Run} {
		var open []string
		_ = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err != nil {
				return nil //nolint:nilerr // it is gone, or not ours: then it holds nothing that we wrote
			}
			info, err := d.Info()
			if err != nil || d.Type()&(fs.ModeSymlink|fs.ModeSocket) != 0 {
				return nil //nolint:nilerr // as above; links and sockets have no mode that counts
			}
			switch mode := info.Mode().Perm(); {
			case d.IsDir() && path == root && mode&0o077 == 0:
				return fs.SkipDir
			case mode&0o077 != 0:
				open = append(open, path)
			}
			return nil
		})
		if len(open) == 0 {
			continue
		}
		all = append(all, api.Finding{
			Code: "state-readable", Severity: converge.WeightWarning, Subject: "files", Path: root,
			Text: fmt.Sprintf("%d files or directories can be opened by other users: %s", len(open), someFiles(open)),
			Hint: "close it", Command: "chmod -R go-rwx " + api.ShellWord(root),
		})
	}
	return all
}

func someFiles(names []string) string {
	if over := len(names) - maxNamedFiles; over > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:maxNamedFiles], ", "), over)
	}
	return strings.Join(names, ", ")
}

// maxBackup bounds how much of one backup is looked at, in bytes: the files of agents have some MB at most.
const maxBackup = 16 << 20

// backupFindings counts the backups that hold what looks like a secret, and tells of those that others may open.
func backupFindings(dir string) []api.Finding {
	var secret int
	var open []string
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if _, number := strconv.Atoi(filepath.Base(path)); err != nil || number != nil || !d.Type().IsRegular() {
			return nil //nolint:nilerr // it is gone, or no bytes of a file of an agent: those have a number as their name
		}
		info, err := d.Info()
		if err != nil || info.Size() > maxBackup {
			return nil //nolint:nilerr // as above
		}
		data, err := os.ReadFile(path)
		if err != nil || !holdsSecret(data) {
			return nil //nolint:nilerr // as above
		}
		if secret++; runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
			open = append(open, path)
		}
		return nil
	})
	var all []api.Finding
	if len(open) > 0 {
		all = append(all, api.Finding{
			Code: "backup-readable", Severity: converge.WeightBlocker, Subject: "backups", Path: dir,
			Text: fmt.Sprintf("%d backups with secrets have another mode than 0600: %s", len(open), someFiles(open)),
			Hint: "close them", Command: "chmod -R go-rwx " + api.ShellWord(dir),
		})
	}
	if secret > 0 {
		all = append(all, api.Finding{
			Code: "backup-secrets", Severity: converge.WeightNotice, Subject: "backups", Path: dir,
			Text: fmt.Sprintf("backups that hold what looks like a secret: %d", secret),
			Hint: "they are needed to take a receipt back, and can be read by you only; see what they are of", Command: "mcpx rollback",
		})
	}
	return all
}

// word is what can be one value in JSON, TOML, YAML or a command line.
var word = lazyregexp.New(`[^\s"'` + "`" + `,;{}\[\]()<>]{8,}`)

// holdsSecret says whether something in a file looks like a secret by itself.
func holdsSecret(data []byte) bool {
	if strings.Contains(string(data), "PRIVATE KEY-----") {
		return true
	}
	return slices.ContainsFunc(word().FindAllString(string(data), -1), func(w string) bool {
		if _, value, found := strings.Cut(w, "="); found && catalog.SecretValue(value) {
			return true
		}
		return catalog.SecretValue(w)
	})
}

// serviceFindings tells what keeps the daemon from being there after the next login.
func (e *Env) serviceFindings() []api.Finding {
	in, err := e.userService()
	if err != nil || in.Home == "" || runtime.GOOS == "windows" {
		return nil // there is no service that could be looked for
	}
	unit := converge.Service{Manager: in.Manager, Home: in.Home, Config: in.Config}.Path()
	if _, err := os.Stat(unit); errors.Is(err, fs.ErrNotExist) {
		return []api.Finding{{
			Code: "service-absent", Severity: converge.WeightNotice, Subject: "service", Path: unit, Text: "nothing starts the daemon at login; commands start it when they need it",
			Hint: "make it a service", Command: "mcpx daemon install-user-service",
		}}
	}
	if in.Manager != converge.Systemd {
		return nil
	}
	var all []api.Finding
	if user := e.Getenv("USER"); user != "" && filepath.Base(user) == user {
		if _, err := os.Stat(filepath.Join(lingering, user)); errors.Is(err, fs.ErrNotExist) {
			all = append(all, api.Finding{
				Code: "linger-off", Severity: converge.WeightNotice, Subject: "service", Text: "systemd ends the services of " + user + " with the last logout",
				Hint: "let them go on", Command: "loginctl enable-linger",
			})
		}
	}
	secrets := filepath.Join(filepath.Dir(unit), "..", "..", "mcpx", "service.env")
	if info, err := os.Stat(secrets); err == nil && info.Mode().Perm()&0o077 != 0 {
		all = append(all, api.Finding{
			Code: "state-readable", Severity: converge.WeightWarning, Subject: "service", Path: secrets, Text: "the variables of the service can be opened by other users",
			Hint: "close it", Command: "chmod 600 " + api.ShellWord(secrets),
		})
	}
	return all
}

// lingering has a file for each user whose services go on without a login: loginctl(1).
const lingering = "/var/lib/systemd/linger"
