//go:build linux

package policy

import (
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
)

// cpuTime is the time this thread has had a processor: the machine may be busy with something else.
func cpuTime(t *testing.T) time.Duration {
	t.Helper()
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_THREAD, &usage); err != nil {
		t.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// moment is what nobody notices.
const moment = 200 * time.Millisecond

// dear is how many times as much as a plain text of its size a text may cost: a plain one takes some 60 ms, and none may
// take longer than a second.
const dear = 16

// TestRT83Cost judges texts of the greatest size that are nested or repeated as far as they can be, and one plain text in the
// same run to compare with: the machine may be slow. Judging has no goroutines.
func TestRT83Cost(t *testing.T) {
	if raceOn {
		t.Skip("the race detector makes it three times slower: measured without it")
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	judging := func(text string) time.Duration {
		begin := cpuTime(t)
		_, _ = Judge(Command{Shell: text}, newShop(), Rules{})
		return cpuTime(t) - begin
	}
	plain := max(judging(strings.Repeat("ls src;", MaxShell/7)), judging(strings.Repeat("ls src;", MaxShell/7)))
	t.Logf("a plain text: %v", plain)
	for _, c := range []struct{ open, middle, end string }{
		{"(", "ls", ")"},
		{"{ ", "ls", ";}"},
		{"$(", "ls", ")"},
		{"echo $(", "ls", ")"},
		{`echo "$(`, "ls", `)"`},
		{"`", "ls", "`"},
		{"$((", "1", "))"},
		{"((", "1", "))"},
		{"echo $((1+(", "1", ")))"},
		{"if ls; then ", "ls", ";fi"},
		{"if ls; then ls; elif ", "ls", ""},
		{"while ls; do ", "cd src", ";done"},
		{"while cd x; do cd y; ", "cd src", ";done"},
		{"for i in a; do ", "cd src", ";done"},
		{"f(){ ", "f", ";}"},
		{"f(){ f; f; ", "f", ";}"},
		{"case a in a) ", "ls", ";; esac"},
		{"ls <(", "ls", ")"},
		{"ls > >(", "curl x", ")"},
		{"! ", "ls", ""},
		{"time ", "ls", ""},
		{"coproc ", "ls", ""},
		{"${a:-", "x", "}"},
		{"echo ${a[", "x", "]}"},
		{`echo "${a:-`, "x", `}"`},
		{"[[ ( ", "a", " ) ]]"},
		{"echo {a,", "b", "}"},
		{"{a,b}", "", ""},
		{"echo {1..1000} ", "", ""},
		{"echo {1..1000}{1..1000} ", "", ""},
		{"ls | ", "ls", ""},
		{"ls && ", "ls", ""},
		{"ls; ", "ls", ""},
		{"cd src; ", "ls x", ""},
		{"cd src || cd docs; ", "ls x", ""},
		{"a=$a; ", "rm $a", ""},
		{"rm -rf $a $b;", "ls", ""},
		{"for a in 1 2 3 4 5 6 7 8 9; do rm -rf $a/$b; done; ", "ls", ""},
		{"ls *;", "ls", ""},
		{"ls */*/*;", "ls", ""},
		{"cat <<a\nb\na\n", "", ""},
		{"cat <<a <<b\na\nb\n", "", ""},
		{"<<a ", "", ""},
		{"env ", "ls", ""},
		{"sudo ", "ls", ""},
		{"eval ", "ls", ""},
		{"eval 'ls';", "ls", ""},
		{"sh -c 'ls;ls;ls';", "ls", ""},
		{"zsh -c 'ls';", "ls", ""},
		{"echo 'ls' | sh;", "ls", ""},
		{"trap 'ls' EXIT;", "ls", ""},
		{"find . ", "-delete", ""},
		{"find . \\( ", "-delete", " \\)"},
		{"find . ! ", "-delete", ""},
		{"find . -exec rm {} \\; ", "", ""},
		{"find -exec ", "x", ""},
		{"xargs ", "ls", ""},
		{"strace ", "rm -rf /", ""},
		{"echo @(", "x", ")"},
		{"echo @($(", "ls", "))"},
		{"x=(", "a", ")"},
		{"a[", "1", "]=1"},
		{"a=(b c);", "ls", ""},
		{"echo ~", "", ""},
		{"echo \\", "", ""},
		{"echo '", "", ""},
		{`echo $'\x41';`, "", ""},
		{"sed -n '/a/,/b/{", "p", "}'"},
		{"sed -e p ", "x", ""},
		{"git log -- a;", "ls", ""},
		{"git -C src ", "log", ""},
		{"pkill '(a*)*b';", "ls", ""},
		{"pkill " + strings.Repeat("(a|", 20), "", ""},
		{"curl http://127.0.0.1:9411:9411:9411;", "ls", ""},
		{"curl :9411", "", ""},
		{"tool a:b:c=d@e ", "", ""},
		{"tool a=a=", "", ""},
		{"declare a=1 ", "", ""},
		{"#", "", ""},
		{"\n", "ls", ""},
		{"a\r\n", "", ""},
		{"\\\n", "ls", ""},
		{"*", "", ""},
		{"/../", "", ""},
		{"ls [", "", ""},
		{"export a=$", "", ""},
		{">&", "", ""},
		{"ls 2>&1 ", "", ""},
		{"x", "", ""},
	} {
		texts := func(size int) map[string]string {
			n := (size - len(c.middle)) / (len(c.open) + len(c.end))
			all := map[string]string{
				"whole": strings.Repeat(c.open, n) + c.middle + strings.Repeat(c.end, n),
				"open":  strings.Repeat(c.open, (size-len(c.middle))/len(c.open)) + c.middle,
			}
			if n > 300 {
				all["some"] = strings.Repeat(c.open, 300) + c.middle + strings.Repeat(c.end, 300)
			}
			return all
		}
		for name, text := range texts(MaxShell) {
			took := judging(text)
			if took > moment {
				t.Logf("%q, %s: %v", c.open, name, took)
			}
			if took > dear*plain {
				t.Errorf("%q, %s: %v, and a plain text %v", c.open, name, took, plain)
			}
		}
	}
}
