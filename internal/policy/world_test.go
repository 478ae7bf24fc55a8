package policy

import (
	"maps"
	"path"
	"slices"
	"strings"
)

// shop is the fixture of runtime-tests.md: a machine of which only what matters is there.
type shop struct {
	place    Place
	files    map[string]bool   // absolute path: is it a directory
	links    map[string]string // absolute path: where it leads
	programs map[string]Program
	hidden   bool // the sandbox hides secrets
	config   []string
	folding  map[string]bool // directories that ignore case
	asked    int
}

func newShop() *shop {
	s := &shop{
		place: Place{
			Target: "/srv/shop", Temp: "/tmp/job-1", Home: "/home/dev", Roots: []string{"/srv/shop"},
			Own:         []string{"/home/dev/.config/mcpx", "/home/dev/.local/state/mcpx", "/srv/shop/.mcpx"},
			Daemon:      Daemon{Addresses: []string{"127.0.0.1:9411"}, Sockets: []string{"/run/user/1000/mcpx/daemon.sock"}, PID: 4242},
			Environment: []string{"PATH", "HOME", "USER", "LANG", "TMPDIR"},
		},
		files: map[string]bool{}, links: map[string]string{}, programs: map[string]Program{}, folding: map[string]bool{},
	}
	for dir := range strings.FieldsSeq(`/ /bin /usr /usr/bin /usr/lib /usr/local /usr/local/bin /sbin /usr/sbin /etc /dev /proc /srv /home /home/dev
		/home/dev/.ssh /home/dev/.config /home/dev/.config/mcpx /home/dev/.local /home/dev/.local/state /home/dev/.local/state/mcpx /tmp
		/tmp/job-1 /run /run/user /run/user/1000 /run/user/1000/mcpx /var /var/lib /root /srv/shop /srv/shop/src /srv/shop/docs
		/srv/shop/data /srv/shop/build /srv/shop/scripts /srv/shop/certs /srv/shop/.git /srv/shop/.git/hooks`) {
		s.files[dir] = true
	}
	for file := range strings.FieldsSeq(`README.md go.mod notes.txt list.txt src/main.go src/util.go docs/guide.md data/in.csv build/app
		scripts/deploy.sh certs/site.pub .env .env.example .git/config`) {
		s.files["/srv/shop/"+file] = false
	}
	for _, file := range []string{"/etc/hosts", "/etc/passwd", "/etc/shadow", "/home/dev/.ssh/id_ed25519", "/run/user/1000/mcpx/daemon.sock"} {
		s.files[file] = false
	}
	s.links["/srv/shop/link-out"] = "/etc"
	s.links["/srv/shop/hooks"] = "/srv/shop/.git/hooks"
	for name := range strings.FieldsSeq(`ls cat head tail tac nl stat df cut tr cmp comm column sha256sum basename dirname realpath readlink
		uname whoami id seq sleep which true false echo printf test [ pwd wc du file sort uniq date hostname tree diff hexdump grep egrep fgrep rg find sed
		awk jq tar git env nice ionice nohup setsid timeout stdbuf time chrt taskset xargs busybox sudo su bash sh dash rm mv cp
		chmod chown mkdir ln tee dd touch curl wget nc npm python3 perl node make kill pkill killall shutdown systemctl mkfs.ext4
		docker fd strace`) {
		s.programs[name] = Program{Path: "/usr/bin/" + name, Identity: name + "-1"}
	}
	s.programs["sh"] = Program{Path: "/usr/bin/sh", Identity: "sh-1", Shell: POSIX}
	s.programs["bash"] = Program{Path: "/usr/bin/bash", Identity: "bash-1", Shell: Bash}
	s.programs["go"] = Program{Path: "/usr/local/go/bin/go", Identity: "go-1"}
	s.programs["mcpx"] = Program{Path: "/home/dev/.local/bin/mcpx", Identity: "mcpx-1", Self: true}
	return s
}

func (s *shop) Place() Place { return s.place }

func (s *shop) Program(name string) Program {
	s.asked++
	if !strings.Contains(name, "/") {
		return s.programs[name]
	}
	file := s.File(name)
	for _, p := range s.programs {
		if p.Path == name || strings.HasPrefix(p.Path, "/usr/bin/") && "/bin/"+path.Base(p.Path) == name {
			p.Path = name
			return p
		}
	}
	if !file.Exists || file.Dir {
		return Program{}
	}
	return Program{Path: file.Path, Identity: file.Path, Writable: within(file.Path, s.place.Target) || within(file.Path, s.place.Temp)}
}

func (s *shop) File(name string) File {
	s.asked++
	canonical := s.resolve(name, 0)
	dir, exists := s.files[canonical]
	return File{
		Path: canonical, Exists: exists, Dir: dir, Device: strings.HasPrefix(canonical, "/dev/sd"), Folds: s.folding[path.Dir(canonical)],
	}
}

// resolve follows links part by part, as the kernel does.
func (s *shop) resolve(name string, hops int) string {
	at := "/"
	for part := range strings.SplitSeq(name, "/") {
		switch part {
		case "", ".":
			continue
		case "..":
			at = path.Dir(at)
			continue
		}
		if s.folding[at] {
			for known := range s.files {
				if path.Dir(known) == at && strings.EqualFold(path.Base(known), part) {
					part = path.Base(known)
				}
			}
		}
		at = path.Join(at, part)
		if to, ok := s.links[at]; ok && hops < 40 {
			at = s.resolve(to, hops+1)
		}
	}
	return at
}

func (s *shop) Glob(pattern string) (matches []string, complete bool) {
	s.asked++
	for _, name := range slices.Sorted(maps.Keys(s.files)) {
		if strings.HasPrefix(path.Base(name), ".") && !strings.HasPrefix(path.Base(pattern), ".") {
			continue
		}
		if ok, err := path.Match(strings.TrimRight(pattern, "/"), name); ok && err == nil {
			matches = append(matches, name)
		}
	}
	return matches, true
}

func (s *shop) SecretsBelow(dir string) bool {
	if s.hidden {
		return false
	}
	for name := range s.files {
		if within(name, dir) && secretFile(fold(name), s.place) {
			return true
		}
	}
	return false
}

func (s *shop) Repository(dir string) Repository {
	if !within(dir, "/srv/shop") {
		return Repository{}
	}
	return Repository{Found: true, Keys: append([]string{"core.bare", "remote.origin.url", "branch.main.merge"}, s.config...)}
}

func (s *shop) HomeOf(user string) string {
	switch user {
	case "dev":
		return "/home/dev"
	case "root":
		return "/root"
	}
	return ""
}
