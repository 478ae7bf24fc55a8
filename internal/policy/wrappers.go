package policy

import (
	"strings"
	"sync"
)

// opener gives what opens a program that starts another one; nil for the others.
func opener(base string) func(*script, *call) {
	switch base {
	case "env":
		return (*script).env
	case "sudo", "doas", "pkexec":
		return (*script).elevate
	case "sudoedit":
		return (*script).sudoedit
	case "su", "runuser":
		return (*script).switchUser
	case "nice", "ionice", "nohup", "setsid", "stdbuf", "time", "timeout", "chrt", "taskset":
		return (*script).wrapper
	case "busybox", "toybox":
		return (*script).applets
	case "xargs":
		return (*script).xargs
	case "find":
		return (*script).find
	case "fd", "fdfind":
		return (*script).fd
	}
	if _, ok := shellDialect(base); ok {
		return (*script).shellProgram
	}
	if startsAnother(base) {
		return (*script).launcher
	}
	return nil
}

// wrapperTables hold the options of the programs that start another one.
var wrapperTables = sync.OnceValue(func() map[string]*optionTable {
	return map[string]*optionTable{
		"env": newTable(`-i -u= -0 -C= -S= -v --ignore-environment --unset= --null --chdir= --split-string= --debug --block-signal=?
			--default-signal=? --ignore-signal=? --list-signal-handling`),
		"sudo": newTable(`-A -b -B -C= -D= -E -e -g= -H -h= -i -K -k -l -n -N -P -p= -R= -r= -S -s -T= -t= -U= -u= -V -v --askpass --background
			--bell --close-from= --chdir= --preserve-env=? --edit --group= --set-home --help --host= --login --remove-timestamp
			--reset-timestamp --list --non-interactive --no-update --preserve-groups --prompt= --chroot= --role= --stdin --shell
			--command-timeout= --type= --other-user= --user= --version --validate`),
		"doas":   newTable("-a= -C= -L -n -s -u="),
		"pkexec": newTable("--user= --disable-internal-agent --keep-cwd --version --help"),
		"su": newTable(`-c= -C= -f -g= -G= -l -m -p -P -s= -T -w= --command= --session-command= --fast --group= --supp-group= --login
			--preserve-environment --pty --shell= --no-pty --whitelist-environment= --help --version`),
		"runuser": newTable(`-c= -C= -f -g= -G= -l -m -p -P -s= -T -u= -w= --command= --session-command= --fast --group= --supp-group=
			--login --preserve-environment --pty --shell= --no-pty --user= --whitelist-environment= --help --version`),
		"nice":    newTable("-# -n= --adjustment= --help --version"),
		"ionice":  newTable("-c= -n= -t !-p= !-P= !-u= --class= --classdata= --ignore !--pid= !--pgid= !--uid= --help --version"),
		"nohup":   newTable("--help --version"),
		"setsid":  newTable("-c -f -w --ctty --fork --wait --help --version"),
		"stdbuf":  newTable("-i= -o= -e= --input= --output= --error= --help --version"),
		"time":    newTable("-a -f= !-o= -p -q -v -V --append --format= !--output= --portability --quiet --verbose --version --help"),
		"timeout": newTable("-f -k= -p -s= -v --foreground --kill-after= --preserve-status --signal= --verbose --help --version"),
		"chrt": newTable(`-b -d -e -f -i -o -r -R -a -m !-p -v -T= -P= -D= --batch --deadline --ext --fifo --idle --other --rr
			--reset-on-fork --all-tasks --max !--pid --verbose --sched-runtime= --sched-period= --sched-deadline= --help --version`),
		"taskset": newTable("-a -c !-p --all-tasks --cpu-list !--pid --help --version"),
		"exec":    newTable("-c -l -a="),
		"command": newTable("-p -v -V"),
		"xargs": newTable(`-0 -a=@ -d= -E= -e=? -I= -i=? -L= -l=? -n= -o -P= -p -r -s= -t -x --null --arg-file=@ --delimiter= --eof=? --replace=?
			--max-lines=? --max-args= --open-tty --max-procs= --interactive --process-slot-var=$ --no-run-if-empty --max-chars=
			--show-limits --verbose --exit --help --version`),
	}
})

func wrapperOptions(name string) *optionTable { return wrapperTables()[name] }

// leading is how many operands of its own a wrapper takes before the command.
func leading(base string) int {
	switch base {
	case "timeout", "chrt", "taskset":
		return 1
	}
	return 0
}

// wrapped judges the wrapper itself: where it lies, and its options. It has no unit of its own when nothing is wrong.
func (s *script) wrapped(c *call, p *parsed, found ...finding) {
	trusted, untrusted := s.lookUp(c)
	found = append(append(found, untrusted...), p.problems(c.base())...)
	if !trusted && len(untrusted) == 0 {
		found = append(found, confirm("default", s.defaultReason(c)))
	}
	if dynamicBefore(c.args, p.operands) {
		found = append(found, confirm("args.dynamic", "an option of "+c.base()+" is not known before it runs"))
	}
	found = append(found, s.userFindings(c, c.args)...)
	s.decide(c, nil, found...)
}

// dynamicBefore tells that a word before the inner command is dynamic.
func dynamicBefore(args, inner []arg) bool {
	return anyDynamic(args[1 : len(args)-len(inner)])
}

// wrapper opens a program that changes nothing about the command but its priority, its time or its terminal.
func (s *script) wrapper(c *call) {
	base := c.base()
	p := wrapperOptions(base).parseUntilOperand(c.args[1:])
	n := leading(base)
	if len(p.operands) <= n {
		s.leaf(c) // --help, or a mistake
		return
	}
	p.operands = p.operands[n:]
	s.wrapped(c, &p)
	s.call(c.inner(p.operands))
}

// env opens env: it gives a program variables, or lists them.
func (s *script) env(c *call) {
	p := wrapperOptions("env").parseUntilOperand(c.args[1:])
	var found []finding
	for len(p.operands) > 0 && !p.operands[0].dynamic && strings.Contains(p.operands[0].text, "=") {
		name, _, _ := strings.Cut(p.operands[0].text, "=")
		found = append(found, s.assigning(name, true)...)
		p.operands = p.operands[1:]
	}
	if text, ok := p.value("-S", "--split-string"); ok {
		s.wrapped(c, &p, append(found, confirm("eval", "env splits a text into a command"))...)
		words := text.text
		if len(p.operands) > 0 {
			words += " " + strings.Join(texts(p.operands), " ")
		}
		if !text.dynamic && words != "" {
			in := *c
			s.nestedText(&in, words, POSIX, false)
		}
		return
	}
	if len(p.operands) == 0 || len(p.operands) == 1 && p.operands[0].text == "-" {
		s.wrapped(c, &p, append(found, confirm("env.dump", "variables are listed with their values"))...)
		return
	}
	if p.operands[0].text == "-" { // an old way to write -i
		p.operands = p.operands[1:]
	}
	in := c.inner(p.operands)
	if dir, ok := p.value("-C", "--chdir"); ok {
		if dir.dynamic {
			in.dirs = in.dirs.orUnknown()
		} else {
			found = append(found, notAllowed(s.readPath(dir.text, c.scope))...)
			in.dirs = s.enter(dir.text, c.scope)
		}
	}
	s.wrapped(c, &p, found...)
	s.call(in)
}

func (s *script) elevate(c *call) {
	p := wrapperOptions(c.base()).parseUntilOperand(c.args[1:])
	for len(p.operands) > 0 && !p.operands[0].dynamic && isAssignment(p.operands[0].text) {
		p.operands = p.operands[1:]
	}
	s.wrapped(c, &p, confirm("elevate", c.base()+" runs a command with other rights"))
	if len(p.operands) > 0 {
		s.call(c.inner(p.operands))
	}
}

func isAssignment(word string) bool {
	name, _, ok := strings.Cut(word, "=")
	return ok && isName(name)
}

func (s *script) sudoedit(c *call) {
	s.decideLeaf(c, confirm("elevate", "sudoedit writes files with other rights"), nil, s.denyRules(c))
}

// switchUser opens su and runuser: a text for the shell of a user, or with runuser -u a command.
func (s *script) switchUser(c *call) {
	p := wrapperOptions(c.base()).parse(c.args[1:])
	elevated := confirm("elevate", c.base()+" runs a command with other rights")
	if _, ok := p.value("-u", "--user"); ok {
		q := wrapperOptions(c.base()).parseUntilOperand(c.args[1:])
		s.wrapped(c, &q, elevated)
		if len(q.operands) > 0 {
			s.call(c.inner(q.operands))
		}
		return
	}
	p.operands = nil
	s.wrapped(c, &p, elevated)
	if text, ok := p.value("-c", "--command", "--session-command"); ok && !text.dynamic {
		s.shellText(c, text, Bash, POSIX)
	}
}

// applets opens busybox and toybox: the applet is judged as the program of its name.
func (s *script) applets(c *call) {
	if len(c.args) < 2 || strings.HasPrefix(c.args[1].text, "-") {
		s.leaf(c)
		return
	}
	p := parsed{operands: c.args[1:]}
	s.wrapped(c, &p)
	in := c.inner(p.operands)
	in.applet = true
	s.call(in)
}

// xargs adds words from its input, which nobody knows yet.
func (s *script) xargs(c *call) {
	p := wrapperOptions("xargs").parseUntilOperand(c.args[1:])
	found := []finding{}
	if file, ok := p.value("-a", "--arg-file"); ok {
		found = append(found, s.readOperand(file, c.scope)...)
	}
	s.wrapped(c, &p, found...)
	args := p.operands
	if len(args) == 0 {
		args = statics("echo")
	}
	mark, replaces := p.value("-I", "-i", "--replace")
	if !replaces && (p.has("-i") || p.has("--replace")) {
		mark, replaces = static("{}"), true
	}
	added := arg{dynamic: true, loose: true, tainted: c.stdin.net}
	args = filled(args, mark.text, added, s.guessing)
	if !replaces && !s.guessing {
		args = append(args, added)
	}
	in := c.inner(args)
	in.stdin = input{}
	s.call(in)
	if replaces && !s.guessing { // once more with nothing in the place of what is read
		defer s.guess()()
		in.args = filled(p.operands, mark.text, added, true)
		if len(in.args) > 0 {
			s.call(in)
		}
	}
}

// filled marks the words that hold a placeholder: what stands for it is not known, or nothing.
func filled(args []arg, mark string, added arg, nothing bool) []arg {
	out := make([]arg, 0, len(args)+1)
	for _, a := range args {
		if mark != "" && strings.Contains(a.text, mark) {
			lead := strings.Index(a.text, mark)
			a.text = strings.ReplaceAll(a.text, mark, "")
			if !nothing {
				a.dynamic, a.tainted, a.lead = true, a.tainted || added.tainted, lead
			}
		}
		out = append(out, a)
	}
	return out
}

// startsAnother names programs whose arguments hold another command, but not in a way that is known here. They are
// confirm; the rules that deny look at what follows.
func startsAnother(base string) bool {
	switch base {
	case "strace", "ltrace", "watch", "parallel", "chroot", "unshare", "nsenter", "flock", "setpriv", "systemd-run", "script", "fakeroot",
		"proot", "unbuffer", "xvfb-run", "dbus-run-session", "numactl", "cgexec", "caffeinate", "bwrap", "firejail":
		return true
	}
	return false
}

// maxLaunched bounds the words at which the command inside of a launcher is looked for.
const maxLaunched = 16

func (s *script) launcher(c *call) {
	s.leaf(c)
	defer s.guess()()
	for i := 1; i < min(len(c.args), maxLaunched); i++ {
		if c.args[i].dynamic {
			continue
		}
		in := c.inner(c.args[i:])
		if in.depth > maxDepth {
			return
		}
		s.call(in)
	}
}
