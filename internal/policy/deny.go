package policy

import (
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// denyRules are the rules that look at the name of the program, whatever its directory, and at static words.
func (s *script) denyRules(c *call) []finding {
	base := c.base()
	if networkClient(base) {
		s.net++
		return s.aimsAtDaemon(c)
	}
	switch base {
	case "rm", "mv":
		return s.removal(c)
	case "chmod", "chown", "chgrp":
		return s.permissions(c)
	case "dd", "tee", "cp", "shred", "truncate", "install", "ln", "touch":
		return nil // writes to devices are judged with the files they write
	case "shutdown", "reboot", "halt", "poweroff", "kexec", "systemctl", "loginctl", "init", "telinit":
		return power(c)
	case "kill", "killall", "killall5", "pkill", "skill":
		return s.kills(c)
	}
	if s.isSelf(c) {
		return controls(c)
	}
	return diskTool(c)
}

// staticWords are the words after the program whose text is known.
func (c *call) staticWords() []arg {
	return slices.DeleteFunc(slices.Clone(c.args[1:]), func(a arg) bool { return a.dynamic || a.pipe })
}

var rmOptions = lazyTable(`-f -i -I -r -R -d -v --force --interactive=? --one-file-system --no-preserve-root --preserve-root=? --recursive
	--dir --verbose --help --version`)

var mvOptions = lazyTable(`-b -f -i -n -S= -t= -T -u -v -Z --backup=? --force --interactive --no-clobber --no-copy --exchange
	--strip-trailing-slashes --suffix= --target-directory= --no-target-directory --update=? --verbose --debug --context --help --version`)

// removal denies the recursive removal and the moving away of protected directories.
func (s *script) removal(c *call) []finding {
	words := c.staticWords()
	var operands []arg
	if c.base() == "rm" {
		p := rmOptions().parse(words)
		if !p.has("-r") && !p.has("-R") && !p.has("--recursive") {
			return nil
		}
		operands = p.operands
	} else {
		p := mvOptions().parse(words)
		operands = p.operands
		if !p.has("-t") && !p.has("--target-directory") && len(operands) > 0 && !c.args[len(c.args)-1].dynamic {
			operands = operands[:len(operands)-1]
		}
	}
	var found []finding
	for _, a := range operands {
		found = append(found, s.removes(a, c.scope, true)...)
	}
	return found
}

// removes denies a word that names a protected directory, or everything in one. entries tells that a link is removed itself
// and not what it leads to.
func (s *script) removes(a arg, sc scope, entries bool) []finding {
	if a.dynamic || a.pipe {
		return nil
	}
	words := []string{a.text}
	if a.src != "" && coversAll(path.Base(strings.TrimRight(a.src, "/"))) {
		words = append(words, strings.TrimSuffix(strings.TrimRight(a.text, "/"), path.Base(a.text))+".")
	}
	for _, word := range words {
		names, _ := s.absolute(word, sc)
		for _, name := range names {
			canonical := s.world.File(name).Path
			if entries {
				canonical = s.entry(name)
			}
			if why := s.protected(canonical); why != "" {
				return []finding{denied("rm.root", quote(canonical)+" is "+why)}
			}
		}
	}
	return nil
}

// coversAll tells that a pattern matches every name in a directory, or every hidden one.
func coversAll(pattern string) bool {
	rest := strings.TrimPrefix(pattern, ".")
	for _, class := range []string{"[!.]", "[^.]", `[\!.]`, `[\^.]`} {
		rest = strings.Replace(rest, class, "?", 1)
	}
	return strings.Contains(rest, "*") && strings.Trim(rest, "*?") == ""
}

var permissionOptions = lazyTable(`-c -f -v -R -h -H -L -P --changes --silent --quiet --verbose --dereference --no-dereference --recursive
	--no-preserve-root --preserve-root --from= --reference= --help --version`)

func (s *script) permissions(c *call) []finding {
	p := permissionOptions().parse(c.staticWords())
	if !p.has("-R") && !p.has("--recursive") {
		return nil
	}
	files := p.operands
	if !p.has("--reference") && len(p.unknown) == 0 && len(files) > 0 {
		files = files[1:] // the mode or the owner
	}
	for _, a := range files {
		names, _ := s.absolute(a.text, c.scope)
		for _, name := range names {
			canonical := s.world.File(name).Path
			if why := s.protected(canonical); why != "" {
				return []finding{denied("perm.root", quote(canonical)+" is "+why)}
			}
		}
	}
	return nil
}

// diskTool denies programs that make file systems and change partitions.
func diskTool(c *call) []finding {
	base := c.base()
	listing := false
	switch {
	case strings.HasPrefix(base, "mkfs"), base == "mke2fs", base == "mkswap", base == "wipefs", base == "blkdiscard":
	case base == "fdisk", base == "sfdisk", base == "cfdisk", base == "gdisk", base == "sgdisk", base == "cgdisk", base == "parted":
		listing = listsPartitions(base, c.args[1:])
	default:
		return nil
	}
	if listing {
		return nil
	}
	return []finding{denied("disk.raw", base+" changes disks")}
}

func listsPartitions(base string, args []arg) bool {
	lists := false
	for _, a := range args {
		switch {
		case a.dynamic:
			return false
		case slices.Contains([]string{"-l", "--list", "-p", "--print", "print", "-V", "--version", "-h", "--help"}, a.text),
			base == "sfdisk" && (a.text == "-d" || a.text == "--dump"):
			lists = true
		case strings.HasPrefix(a.text, "/dev/"), base == "parted" && (a.text == "-s" || a.text == "--script"):
		default:
			return false
		}
	}
	return lists
}

// power denies what turns the machine off, starts it anew or puts it to sleep.
func power(c *call) []finding {
	base := c.base()
	off := denied("power", base+" turns the machine off, starts it anew or puts it to sleep")
	switch base {
	case "init", "telinit":
		for _, a := range c.staticWords() {
			if a.text == "0" || a.text == "6" {
				return []finding{off}
			}
		}
		return nil
	case "systemctl", "loginctl":
		for _, a := range c.staticWords() {
			switch strings.TrimSuffix(a.text, ".target") {
			case "poweroff", "reboot", "halt", "kexec", "soft-reboot", "suspend", "hibernate", "hybrid-sleep", "suspend-then-hibernate", "sleep",
				"shutdown":
				return []finding{off}
			}
		}
		return nil
	}
	return []finding{off}
}

// kills denies ending every process, or the daemon.
func (s *script) kills(c *call) []finding {
	words := c.staticWords()
	base := c.base()
	switch base {
	case "killall5":
		return []finding{denied("kill.all", "killall5 ends every process")}
	case "kill", "skill":
		return s.killsPID(words)
	}
	everything := []finding{denied("kill.all", base+" would end every process")}
	expression, byUser := base == "pkill", false
	var patterns []string
	for i := 0; i < len(words); i++ {
		switch text := words[i].text; {
		case base == "pkill" && (text == "-v" || text == "--inverse"):
			return everything
		case base == "killall" && (text == "-r" || text == "--regexp"):
			expression = true
		case slices.Contains([]string{"-u", "-U", "--user", "--euid", "--uid"}, text):
			byUser = true
			i++
		case strings.HasPrefix(text, "-"):
			byUser = byUser || strings.HasPrefix(text, "-u") || strings.HasPrefix(text, "-U") || strings.HasPrefix(text, "--user=") || strings.HasPrefix(text, "--euid=")
		default:
			patterns = append(patterns, text)
		}
	}
	if len(patterns) == 0 && byUser && !anyDynamic(c.args) {
		return everything
	}
	for _, pattern := range patterns {
		if pattern == productName || expression && matchesAll(pattern, productName) {
			return []finding{denied("kill.all", base+" would end the daemon")}
		}
	}
	return nil
}

// matchesAll tells that an expression for names of processes matches all of these names; one that cannot be read does.
func matchesAll(pattern string, names ...string) bool {
	re, err := regexp.Compile(pattern)
	return err != nil || !slices.ContainsFunc(names, func(name string) bool { return !re.MatchString(name) })
}

func (s *script) killsPID(words []arg) []finding {
	if len(words) > 0 && words[0].text != "--" && strings.HasPrefix(words[0].text, "-") {
		switch words[0].text {
		case "-s", "-n", "--signal":
			words = words[min(2, len(words)):]
		default:
			words = words[1:]
		}
	}
	for _, a := range words {
		pid, err := strconv.Atoi(a.text)
		if err == nil && pid == -1 {
			return []finding{denied("kill.all", "the process -1 is every process")}
		}
		if err == nil && s.place.Daemon.PID > 0 && (pid == s.place.Daemon.PID || pid == -s.place.Daemon.PID) {
			return []finding{denied("kill.all", "this is the process of the daemon")}
		}
	}
	return nil
}

// productName is the name of the binary.
const productName = "mcpx"

// isSelf tells that a command is this product, whatever it is called.
func (s *script) isSelf(c *call) bool {
	if c.base() == productName {
		return true
	}
	if c.plain() {
		return s.world.Program(c.name()).Self
	}
	names, _ := s.absolute(c.name(), c.scope)
	return slices.ContainsFunc(names, func(name string) bool { return s.world.Program(name).Self })
}

// controls denies the commands of this product that do more than show.
func controls(c *call) []finding {
	if len(c.args) > 1 && !c.args[1].dynamic {
		switch c.args[1].text {
		case "status", "health", "ps", "doctor", "observe", "help", "--version":
			return nil
		}
	}
	return []finding{denied("self.control", "an agent may look at "+productName+" and not control it")}
}

// networkClient tells that a program puts out what the network sends.
func networkClient(base string) bool {
	switch base {
	case "curl", "wget", "wget2", "nc", "ncat", "netcat", "socat", "telnet", "ftp", "tftp", "lftp", "sftp", "fetch", "aria2c", "http", "https",
		"httpie", "xh", "xhs", "curlie", "lynx", "links", "elinks", "w3m", "websocat", "grpcurl", "axel":
		return true
	}
	return false
}

// aimsAtDaemon denies a network client that would talk to the control plane.
func (s *script) aimsAtDaemon(c *call) []finding {
	words := texts(c.staticWords())
	if s.reachesDaemon(words) {
		return []finding{denied("self.control", "this is the address of the control plane")}
	}
	for _, word := range words {
		for _, part := range append([]string{word}, strings.FieldsFunc(word, func(r rune) bool { return strings.ContainsRune("=:,@", r) })...) {
			names, _ := s.absolute(part, c.scope)
			for _, name := range names {
				if slices.Contains(s.place.Daemon.Sockets, path.Clean(name)) || slices.Contains(s.place.Daemon.Sockets, s.world.File(name).Path) {
					return []finding{denied("self.control", "this is the socket of the control plane")}
				}
			}
		}
	}
	return nil
}
