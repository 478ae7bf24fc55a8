package converge

import "slices"

// Code explains one word that stands in the output of mcpx about configurations.
type Code struct {
	Code  string
	Kind  CodeKind
	Means string
	Next  string // what a person can do; "" nothing has to be done
}

// CodeKind says where a code stands.
type CodeKind string

// The kinds of codes, in the order of the document.
const (
	KindClass  CodeKind = "class"
	KindReason CodeKind = "reason"
	KindMatch  CodeKind = "match"
	KindRouted CodeKind = "routed"
	KindFile   CodeKind = "file"
	KindEntry  CodeKind = "entry"
	KindPlan   CodeKind = "plan"
	KindNeed   CodeKind = "need"
	KindError  CodeKind = "error"
	KindNote   CodeKind = "note"
	KindRisk   CodeKind = "risk"
	KindAuto   CodeKind = "auto"
	KindStale  CodeKind = "stale"
	KindHealth CodeKind = "health"
	KindVoid   CodeKind = "void"
)

// Explain finds the explanation of a code. A word that is a class and a reason, too, is explained as the class.
func Explain(code string) (Code, bool) {
	for _, c := range Codes {
		if c.Code == code {
			return c, true
		}
	}
	return Code{}, false
}

// Codes is the registry; docs/findings.md is generated from it.
var Codes = slices.Concat(seenCodes, planCodes, draftCodes, healthCodes, writeCodes)

// seenCodes are those of what was observed.
var seenCodes = []Code{
	{"compliant", KindClass, "The entry goes through mcpx to a server of the catalog.", ""},
	{"dormant", KindClass, "The entry is off in the agent's own way, so nothing runs.", ""},
	{"bypass", KindClass, "The entry is on and starts or reaches a server itself, although the catalog has that server.", "give the agent the server's URL instead: `mcpx server show NAME`"},
	{"unknown", KindClass, "The entry is on and nothing in the catalog is the same server.", "add it with `mcpx server add`, or leave it"},
	{"ambiguous", KindClass, "Two or more servers of the catalog fit equally well. Nothing is guessed.", "say which one it is: `mcpx catalog review --link ENTRY NAME`; or compare them with `mcpx server show`, and remove one"},
	{"name-conflict", KindClass, "The catalog has another server under the name of this entry, or under that alias.", "when it is the same server, say so: `mcpx catalog review --link ENTRY NAME`; else rename one of the two: `mcpx server edit NAME --rename OTHER`, or the entry in the agent's file"},
	{"broken", KindClass, "The entry cannot be read, so the agent does not get this server.", "correct the entry in the agent's file"},
	{"unsupported", KindClass, "The entry is of a kind that mcpx does not carry.", ""},
	{"unsafe", KindClass, "The entry is dangerous whatever it runs; the reasons say why.", "correct the entry in the agent's file"},
	{"ineffective", KindClass, "The entry says something that has no effect: the agent ignores a field, or nothing of mcpx answers at the address.", "remove the field, or correct the address"},

	{"direct", KindReason, "The agent starts or reaches the server itself, not through mcpx.", "give the agent the server's URL instead"},
	{"disabled-by-agent", KindReason, "The agent's own configuration says that the entry is off, or nobody has agreed to it yet.", ""},
	{"layer-only", KindReason, "The entry only changes an entry of the same name in another file.", "look at the other file"},
	{"shadowed", KindReason, "In this project an entry of the same name in another file counts in its place. Elsewhere this one may count.", ""},
	{"layered", KindReason, "The agent makes one entry of this one and of those with the same name in other files; each is judged by itself.", "look at all of them"},
	{"file-broken", KindReason, "The agent refuses the whole file that holds the entry.", "correct the file; `mcpx config discover` shows line and column"},
	{"plain-http", KindReason, "The URL is http to another machine: everybody on the way can read and change what is sent.", "use https"},
	{"url-credentials", KindReason, "The URL holds a user name, a password or a secret parameter. URLs end in logs and process lists.", "put the secret into a header"},
	{"tls-checks-off", KindReason, "A variable or flag exists to turn the check of certificates off. Its value is not looked at.", "remove it"},
	{"shell-string", KindReason, "A shell reads the command, so what it runs cannot be told without running it.", "write the command and its arguments as a list"},
	{"file-world-writable", KindReason, "Everybody on this machine may write the file, and so say what the agent runs.", "run `chmod o-w` on it"},
	{"program-world-writable", KindReason, "Everybody on this machine may write the program or script.", "run `chmod o-w` on it"},
	{"websocket", KindReason, "MCP over websockets is not carried by mcpx.", "ask the authors of the server for its http URL"},
	{"client-oauth", KindReason, "The agent has an OAuth login that is bound to this URL.", ""},
	{"sharing-none", KindReason, "The server is not to be led through mcpx: each agent keeps an entry of its own.", ""},
	{"server-not-routable", KindReason, "The entry goes through mcpx, but the server there is disabled or waits for a review.", "`mcpx server show NAME` says why"},

	{"routed-by-name", KindMatch, "The entry goes through mcpx and names this server (confidence exact).", ""},
	{"linked-by-person", KindMatch, "A person has said that this entry is this server. That counts as long as the entry stays as it is (confidence medium).", ""},
	{"same-package", KindMatch, "The package is the same, whatever launcher starts it. Without any difference the confidence is high, else medium.", ""},
	{"same-url", KindMatch, "The URL is the same. It says nothing about the account behind it, so the confidence is medium.", ""},
	{"wrapped-remote", KindMatch, "One of the two reaches the URL through a program such as mcp-remote.", ""},
	{"unpinned", KindMatch, "No exact version is named: what runs is decided at each start.", "name a version"},
	{"version-differs", KindMatch, "The versions, tags or ranges differ.", ""},
	{"arguments-differ", KindMatch, "The arguments of the program differ.", ""},
	{"options-differ", KindMatch, "What a container is given (-e, --env-file, -v, --mount) differs.", ""},
	{"variables-differ", KindMatch, "The names of the variables differ.", ""},
	{"headers-differ", KindMatch, "The names of the headers differ.", ""},
	{"cwd-differs", KindMatch, "The working directories differ.", ""},
	{"relative-path", KindMatch, "The program or script is named by a relative path, which is another file in another directory.", "write the whole path"},
	{"secret-not-compared", KindMatch, "A part that looks like a secret was not compared.", ""},
	{"entry-differs", KindMatch, "It is another program of the same package (confidence weak).", ""},
	{"program-path-differs", KindMatch, "The programs have the same base name and lie in different places, or one is looked up in PATH (confidence weak).", "write the whole path in both"},
	{"identity-weak", KindMatch, "The command has an option that is not known, or nothing to compare: it may be misread (confidence weak).", ""},
	{"same-name", KindMatch, "The entry has the name of the server.", ""},
	{"same-alias", KindMatch, "The entry has an alias of the server as its name.", ""},
	{"other-name", KindMatch, "The entry has another name than the server.", ""},
	{"alias-conflict", KindMatch, "The entry has an alias of the server as its name and is another server.", "remove the alias, or rename the entry"},
	{"several-servers", KindMatch, "Several servers of the catalog fit equally well (confidence ambiguous).", "make them differ, or remove one"},
	{"not-in-catalog", KindMatch, "No server of the catalog has the package, URL or name (confidence none).", "add it with `mcpx server add`"},

	{"routed", KindRouted, "The entry goes through mcpx by the server's name.", ""},
	{"routed-alias", KindRouted, "The entry goes through mcpx by an alias of the server.", ""},
	{"routed-spelling", KindRouted, "The entry goes through mcpx; the URL is spelled in another way than mcpx does (localhost, a slash at the end).", ""},
	{"routed-stale-port", KindRouted, "The URL has the form of mcpx, but another port than the daemon listens on.", "correct the port; `mcpx daemon status` shows it"},
	{"routed-unknown", KindRouted, "The entry goes through mcpx to a name that the catalog does not have.", "add the server, or remove the entry"},
	{"routed-foreign", KindRouted, "The URL has the form of an MCP hub on this machine, which is not this daemon.", ""},
	{"routed-disabled", KindRouted, "The entry goes through mcpx and is off in the agent.", ""},

	{"config-absent", KindFile, "There is no such file.", ""},
	{"config-broken", KindFile, "The agent cannot read the file: line and column say where.", "correct it there"},
	{"config-unreadable", KindFile, "The file cannot be read by mcpx.", "check its owner and mode"},
	{"config-busy", KindFile, "The file changed at each try to read it.", "try again"},
	{"project-untrusted", KindFile, "The agent ignores the file, because its project is not trusted.", "start the agent in the project and trust it"},

	{"approval-pending", KindEntry, "Nobody has allowed this entry of a project in the agent yet.", "start the agent in the project and allow it"},
	{"approval-unseen", KindEntry, "Whether a person has allowed this entry of a project is known to the agent only: it is taken to be on.", ""},
	{"raw-secret", KindEntry, "A value that looks like a secret stands in the file itself.", "put a reference to a variable in its place"},
	{"unknown-field", KindEntry, "The field is not known to belong to this agent. It stays as it is.", ""},
	{"ineffective-field", KindEntry, "The agent ignores the field.", "remove it"},
	{"missing-field", KindEntry, "A field that the entry needs is missing.", "add it"},
	{"wrong-type", KindEntry, "The field has another type than the agent reads.", "correct it"},
	{"unknown-type", KindEntry, "The agent does not know this type of server.", "correct the field type"},
	{"type-missing", KindEntry, "Without a type the agent does not read the URL.", "add the field type"},
	{"ambiguous-backend", KindEntry, "The entry has a command and a URL.", "remove one"},
	{"wrong-backend", KindEntry, "The field belongs to the other kind of server.", "remove it"},
	{"inline-bearer-token", KindEntry, "The agent refuses a token in the file.", "name a variable with bearer_token_env_var"},
}
