package policy

import (
	"slices"
	"strings"
)

// Shipped is one rule of the product.
type Shipped struct {
	ID       string
	Decision Decision
	Matches  string // what it matches, for people
}

// ShippedRules are the rules that are built in, strictest first. The rule vetted.<program> stands for one for each program
// of the list.
func ShippedRules() []Shipped {
	return []Shipped{
		{"rm.root", Deny, "removes a protected directory: the root, one directly below it, a home, a registered root, one of the product, or one that holds any of these; or everything in one"},
		{"perm.root", Deny, "changes rights or owners below a protected directory"},
		{"disk.raw", Deny, "makes file systems, changes partitions or writes to a device"},
		{"power", Deny, "turns the machine off, starts it anew or puts it to sleep"},
		{"kill.all", Deny, "ends every process, or the daemon"},
		{"fork.bomb", Deny, "a function that starts itself in a pipeline or in the background"},
		{"net.pipe", Deny, "runs what the network sends"},
		{"self.control", Deny, "controls mcpx, or talks to its address or socket"},
		{"file.secret", Deny, "reads or writes a file of the list of secrets"},
		{"file.denied", Deny, "a file that may not be written, or that a rule of the user or project denies"},
		{"file.read_only", Deny, "writes a file that a rule makes read-only"},
		{"secret.program", Deny, "gives a secret to a program that it is not for"},
		{"file.confirm", Confirm, "writes a file that makes other tools act"},
		{"file.confirm_write", Confirm, "writes a file that a rule wants a yes for"},
		{"name.dynamic", Confirm, "which program is started is not known before it runs"},
		{"args.dynamic", Confirm, "an argument is not known before it runs"},
		{"eval", Confirm, "a text that is put together is run"},
		{"source", Confirm, "the shell runs a file"},
		{"interp", Confirm, "a shell or interpreter runs a file, its input, or code that is not judged"},
		{"elevate", Confirm, "runs a command with other rights"},
		{"shell.state", Confirm, "changes what the shell does later"},
		{"arith.name", Confirm, "arithmetic, subscripts and names that can run code from data"},
		{"expand.indirect", Confirm, "an expansion whose name or operator comes from data"},
		{"glob.extended", Confirm, "an extended pattern"},
		{"env.sensitive", Confirm, "gives a program a variable, or changes one by which programs are found or run"},
		{"env.dump", Confirm, "lists variables with their values"},
		{"secret.use", Confirm, "gives a secret to a program that no rule names"},
		{"write.redirect", Confirm, "writes a file of the target"},
		{"path.outside", Confirm, "a file or directory outside of the target"},
		{"path.unresolved", Confirm, "a relative path whose directory is not known"},
		{"read.recursive", Confirm, "searches below a directory that holds secrets"},
		{"option.excluded", Confirm, "an option of a vetted program that does more than read"},
		{"option.unknown", Confirm, "an option of a vetted program that is not in its table"},
		{"program.text", Confirm, "a script of sed, awk or jq that does more than print"},
		{"program.untrusted", Confirm, "a program that the agent can change"},
		{"net.redirect", Confirm, "the shell opens a network connection"},
		{"git.option", Confirm, "a global option of git"},
		{"git.repo-config", Confirm, "the configuration of the repository runs programs"},
		{"wrapper.depth", Confirm, "too many programs or texts, one inside of the other"},
		{"text.cr", Confirm, "a carriage return in the text"},
		{"policy.broken", Confirm, "the policy file of the project does not load"},
		{"default", Confirm, "everything that no rule matches"},
		{"write.tmp", Allow, "writes a file in the private temporary directory"},
		{"redirect.read", Allow, "reads a file of the target"},
		{"redirect.fd", Allow, "descriptors, harmless devices and text of the command itself"},
		{"input.data", Allow, "input for a command that does not run it"},
		{"assign", Allow, "assigns a variable of the shell"},
		{"vetted.<program>", Allow, "a program of the list that only reads"},
	}
}

func shipped(id string) bool {
	return strings.HasPrefix(id, "vetted.") ||
		slices.ContainsFunc(ShippedRules(), func(s Shipped) bool { return s.ID == id })
}

// liftable tells that the user may lift a rule. What no rule matches stays confirm, a broken policy is repaired, files are
// taken out of their lists one by one, and what is allowed needs no lifting.
func liftable(id string) bool {
	if id == "default" || id == "policy.broken" || id == "secret.program" || strings.HasPrefix(id, "file.") {
		return false
	}
	return slices.ContainsFunc(ShippedRules(), func(s Shipped) bool { return s.ID == id && s.Decision != Allow })
}
