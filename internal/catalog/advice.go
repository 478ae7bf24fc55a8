package catalog

import "fmt"

// Nature is what a well-known package does with the state of its process; it decides which sharing suits it.
type Nature string

// The natures. The zero value is an unknown package.
const (
	Stateless Nature = "stateless" // answers depend on the request alone
	Account   Nature = "account"   // stateless, but acts for the owner of a credential
	Files     Nature = "files"     // bound to directories: arguments, cwd or roots
	Browser   Nature = "browser"   // pages and cookies live in the process
	Memory    Nature = "memory"    // keeps what one conversation told it
)

// natures lists packages by kind and name. An entry is a promise about the package's published behaviour; when in
// doubt a package is left out, and nothing is advised.
var natures = map[PackageKind]map[string]Nature{
	PackageNPM: {
		"@upstash/context7-mcp":                            Stateless,
		"@modelcontextprotocol/server-brave-search":        Account,
		"@brave/brave-search-mcp-server":                   Account,
		"tavily-mcp":                                       Account,
		"exa-mcp-server":                                   Account,
		"firecrawl-mcp":                                    Account,
		"@perplexity-ai/mcp-server":                        Account,
		"@modelcontextprotocol/server-google-maps":         Account,
		"@modelcontextprotocol/server-github":              Account,
		"@modelcontextprotocol/server-gitlab":              Account,
		"@modelcontextprotocol/server-slack":               Account,
		"@notionhq/notion-mcp-server":                      Account,
		"@sentry/mcp-server":                               Account,
		"figma-developer-mcp":                              Account,
		"@modelcontextprotocol/server-filesystem":          Files,
		"@playwright/mcp":                                  Browser,
		"@executeautomation/playwright-mcp-server":         Browser,
		"@modelcontextprotocol/server-puppeteer":           Browser,
		"chrome-devtools-mcp":                              Browser,
		"@browsermcp/mcp":                                  Browser,
		"@modelcontextprotocol/server-memory":              Memory,
		"@modelcontextprotocol/server-everything":          Memory,
		"@modelcontextprotocol/server-sequential-thinking": Memory,
	},
	PackagePyPI: {
		"mcp-server-fetch":      Stateless,
		"mcp-server-time":       Stateless,
		"duckduckgo-mcp-server": Stateless,
		"arxiv-mcp-server":      Files,
		"mcp-server-git":        Files,
		"mcp-server-sqlite":     Files,
		"serena":                Files,
		"mcp-server-github":     Account,
		"mcp-atlassian":         Account,
	},
	PackageOCI: {
		"docker.io/mcp/fetch":              Stateless,
		"docker.io/mcp/time":               Stateless,
		"docker.io/mcp/context7":           Stateless,
		"ghcr.io/github/github-mcp-server": Account,
		"docker.io/mcp/playwright":         Browser,
		"mcr.microsoft.com/playwright/mcp": Browser,
	},
}

// NatureOf is the nature of a well-known package, "" for every other one.
func NatureOf(p Package) Nature {
	if p.Weak {
		return ""
	}
	return natures[p.Kind][p.Name]
}

// Advice is what `mcpx server show` and `mcpx ps` say about the sharing of an entry.
type Advice struct {
	Nature  Nature  `json:"nature"`
	Sharing Sharing `json:"sharing"` // what suits the package
	Text    string  `json:"text"`    // one sentence, with the command that changes it
}

// sharingEdit says how a person gives the server another sharing.
func (s Server) sharingEdit(to Sharing) string {
	if s.File != "" {
		return fmt.Sprintf("sharing = %q in %s", to, s.File)
	}
	return "`mcpx server edit " + s.Name + " --sharing " + string(to) + "`"
}

// Advise compares the sharing of an entry with the nature of its package. False: nothing to say, either because it
// fits or because the package is not known.
func Advise(s Server) (Advice, bool) {
	p, ok := Identify(s)
	if !ok {
		return Advice{}, false
	}
	a := Advice{Nature: NatureOf(p)}
	switch a.Nature {
	case Stateless:
		if s.Sharing == ShareGlobal {
			return Advice{}, false
		}
		a.Sharing = ShareGlobal
		a.Text = p.Name + " keeps no state: one process can serve every session (" + s.sharingEdit(ShareGlobal) + ")"
	case Account:
		if s.Sharing == ShareGlobal || s.Sharing == ShareAccount {
			return Advice{}, false
		}
		a.Sharing = ShareAccount
		a.Text = p.Name + " keeps no state beside its credential: one process for each account is enough (" + s.sharingEdit(ShareAccount) + ")"
	case Files:
		if s.Sharing != ShareGlobal && s.Sharing != ShareAccount {
			return Advice{}, false
		}
		a.Sharing = ShareWorkspace
		a.Text = p.Name + " works on the directories of one project: do not share it between projects (" + s.sharingEdit(ShareWorkspace) + ")"
	case Browser, Memory:
		if s.Sharing == ShareSession {
			return Advice{}, false
		}
		a.Sharing = ShareSession
		a.Text = p.Name + " keeps the state of one conversation in its process (" + s.sharingEdit(ShareSession) + ")"
	case "":
		return Advice{}, false
	}
	return a, true
}
