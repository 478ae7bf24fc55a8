package work

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"mcpx/internal/catalog"
	"mcpx/internal/fault"
	"mcpx/internal/operation"
	"mcpx/internal/session"
	"mcpx/internal/store"
)

// FindTools are the arguments of find_tools.
type FindTools struct {
	Claims
	Session string   `json:"remote_session_id" jsonschema:"the session"`
	Query   string   `json:"query,omitempty" jsonschema:"words of what you need; everything without it"`
	IDs     []string `json:"ids,omitempty" jsonschema:"instead: up to 10 ids, as this tool gives them"`
	Kinds   []string `json:"kinds,omitempty" jsonschema:"of skill and tool; both without it"`
	Server  string   `json:"server,omitempty" jsonschema:"only tools of this server"`
	Detail  string   `json:"detail,omitempty" jsonschema:"brief, or full with schemas"`
	Limit   int      `json:"limit,omitempty" jsonschema:"1 to 50; 10 without it"`
	Cursor  string   `json:"cursor,omitempty" jsonschema:"next_cursor of the page before"`
}

// Risk is what a call can do (runtime.md section 4.4).
type Risk string

// The risks.
const (
	RiskRead  Risk = "read"  // it changes nothing, and reaches nothing outside of its server
	RiskWrite Risk = "write" // it may change something
	RiskOpen  Risk = "open"  // it changes nothing, and may reach whatever it likes
)

// Standing of a tool that was found.
const (
	stateReady    = "ready"
	stateTrust    = "trust_required" // a person has not agreed to its server yet
	stateOffline  = "offline"        // its server cannot be reached as it is written down
	stateDisabled = "disabled"       // a person does not want its server
)

// The kinds of what is found.
const (
	kindTool  = "tool"
	kindSkill = "skill"
)

// The bounds of find_tools.
const (
	maxFindIDs   = 10
	usualFound   = 10
	mostFound    = 50
	maxToolLine  = 160      // bytes of a summary
	maxFileLine  = 150      // what a file of a skill is taken for, in bytes
	maxFoundSize = 16 << 10 // bytes of one page: schemas are large, and a page that is kept apart would be two calls
)

// foundTool is one item of find_tools.
type foundTool struct {
	ID       string          `json:"id"`
	Kind     string          `json:"kind"`
	Title    string          `json:"title,omitempty"`
	Summary  string          `json:"summary,omitempty"`
	Risk     Risk            `json:"risk"`
	State    string          `json:"state"`
	Revision string          `json:"revision"`
	Shadowed bool            `json:"shadowed,omitempty"` // another skill has the name; use the id
	Schema   json.RawMessage `json:"input_schema,omitempty"`
	Files    []folderFile    `json:"files,omitempty"` // of a skill

	about string // title and description
}

// findTools searches what is stored about tools, and the skills that are there. No server is started or asked.
func findTools(ctx context.Context, s *Service, t *turn) (any, error) {
	var in FindTools
	if err := t.scan(&in); err != nil {
		return nil, err
	}
	from := 0
	switch {
	case len(in.IDs) > maxFindIDs:
		return nil, operation.Refuse(operation.LimitExceeded, "at most %d ids", maxFindIDs).With("limit", maxFindIDs).With("value", len(in.IDs))
	case in.Detail != "" && in.Detail != "brief" && in.Detail != "full":
		return nil, operation.Refuse(operation.ArgumentInvalid, "%.32q is no detail; brief and full are", in.Detail)
	case slices.ContainsFunc(in.Kinds, func(k string) bool { return k != kindTool && k != kindSkill }):
		return nil, operation.Refuse(operation.ArgumentInvalid, "%.32q is no list of kinds; skill and tool are", in.Kinds)
	case in.Cursor != "":
		n, err := strconv.Atoi(in.Cursor)
		if err != nil || n < 0 {
			return nil, operation.Refuse(cursorInvalid, "cursor is not one that this tool has given")
		}
		from = n
	}
	all, unlisted, err := s.extensions(ctx, t, in)
	if err != nil {
		return nil, err
	}
	if len(in.IDs) > 0 {
		all, err = byIDs(all, in.IDs)
	} else {
		all = matching(all, in.Query)
	}
	if err != nil {
		return nil, err
	}
	limit := within(in.Limit, usualFound, mostFound)
	if len(in.IDs) > 0 {
		limit = maxFindIDs
	}
	return s.foundPage(in, all, unlisted, from, limit), nil
}

// extensions are the tools of servers and the skills that a session has, and the servers about whose tools nothing is stored.
func (s *Service) extensions(ctx context.Context, t *turn, in FindTools) (all []foundTool, unlisted []string, err error) {
	var at session.Admission
	err = s.cfg.DB.View(ctx, func(r store.Reader) (err error) {
		at, err = session.Admit(ctx, r, session.AdmitRequest{Session: in.Session, Principal: t.Principal, Act: session.ActRead})
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	wants := func(kind string) bool { return len(in.Kinds) == 0 || slices.Contains(in.Kinds, kind) }
	tools, skills := wants(kindTool), wants(kindSkill) && in.Server == ""
	var kinds []session.EntryKind
	if tools {
		kinds = append(kinds, session.EntryServer)
	}
	if skills {
		kinds = append(kinds, session.EntrySkill)
	}
	if len(kinds) == 0 {
		return nil, nil, nil
	}
	g, err := s.groundsOf(ctx, at, kinds...)
	if err != nil {
		return nil, nil, err
	}
	if tools {
		err = s.cfg.DB.View(ctx, func(r store.Reader) (err error) {
			all, unlisted, err = knownTools(ctx, r, g, in.Server)
			return err
		})
	}
	if skills {
		all = append(all, s.foundSkills(ctx, g)...)
	}
	return all, unlisted, err
}

// foundPage is a page of what was found; the session has seen it.
func (s *Service) foundPage(in FindTools, all []foundTool, unlisted []string, from, limit int) any {
	out := struct {
		Items    []foundTool `json:"items"`
		Total    int         `json:"total"`
		Next     string      `json:"next_cursor,omitempty"`
		Unlisted []string    `json:"unlisted,omitempty"` // servers that nobody has asked for their tools yet
	}{Items: []foundTool{}, Total: len(all), Unlisted: unlisted}
	from = min(from, len(all))
	size := 0
	for i, one := range all[from:] {
		if in.Detail != "full" {
			one.Schema, one.Files = nil, nil
		}
		size += len(one.Schema) + len(one.Files)*maxFileLine + len(one.Summary) + len(one.ID) + 200
		if i == limit || i > 0 && size > maxFoundSize {
			out.Next = strconv.Itoa(from + i)
			break
		}
		s.seen.note(in.Session, one.ID, one.Revision)
		out.Items = append(out.Items, one)
	}
	answer := outcome{data: out}
	for _, server := range unlisted[:min(len(unlisted), maxNext)] {
		answer.next = append(answer.next, operation.Next{
			Tool: "call_tool", Args: map[string]any{"remote_session_id": in.Session, "id": server + "/*", operation.IDField: "list-" + server + "-1"},
			Why: "asks " + server + " for its tools; it calls none",
		})
	}
	return answer
}

// knownTools is everything that is stored about the tools of the servers, by id; unlisted are the servers about whose
// tools nothing is. Servers that the repository names come after those of the catalog.
func knownTools(ctx context.Context, r store.Reader, g grounds, only string) (all []foundTool, unlisted []string, err error) {
	servers, err := catalog.All(ctx, r)
	if err != nil {
		return nil, nil, err
	}
	offers, err := r.AllOffers(ctx)
	if err != nil {
		return nil, nil, err
	}
	pins, err := r.AllPins(ctx)
	if err != nil {
		return nil, nil, err
	}
	known := map[string][]catalog.ToolPin{}
	held := map[string][]catalog.Held{}
	for _, p := range pins {
		known[p.Server], held[p.Server] = p.Tools, p.Held
	}
	for _, o := range offers {
		known[o.Server] = o.Tools
	}
	found := false
	var names []string
	add := func(one catalog.Server, state string) {
		if names = append(names, one.Name); only != "" && one.Name != only {
			return
		}
		found = true
		if len(known[one.ID]) == 0 && state == stateReady {
			unlisted = append(unlisted, one.Name)
		}
		for _, tool := range known[one.ID] {
			if !isHeld(held[one.ID], tool) {
				all = append(all, describe(one, tool, state))
			}
		}
	}
	for _, one := range servers {
		state, _ := standing(one)
		add(one, state)
	}
	for _, e := range g.servers(servers) {
		if state, whole := g.standing(e); whole {
			add(g.callable(e).Server, state)
		} else if names = append(names, e.Name); only == "" || e.Name == only {
			found = true
			all = append(all, closed(e, state))
		}
	}
	if only != "" && !found {
		return nil, nil, serverUnknown(only, names)
	}
	return all, unlisted, nil
}

// standing says whether the server of an entry can be called. Of what nobody agreed to as it is, and of what cannot be started,
// no tools are told.
func (g grounds) standing(e session.Entry) (state string, whole bool) {
	switch {
	case !g.trust.Covers(e):
		return stateTrust, false
	case e.Server == nil:
		return stateDisabled, false
	}
	state, _ = standing(e.Routed(g.project))
	return state, true
}

// closed is a server of a repository of which no tools are told.
func closed(e session.Entry, state string) foundTool {
	summary := "all tools of the server " + e.Name + " that " + e.File + " names"
	return foundTool{ID: e.Name + "/*", Kind: kindTool, Summary: head([]byte(summary), maxToolLine), Risk: RiskWrite, State: state, Revision: e.Digest, about: summary}
}

// isHeld says whether a tool is held back from everybody, as the gateway does it.
func isHeld(held []catalog.Held, tool catalog.ToolPin) bool {
	return slices.ContainsFunc(held, func(h catalog.Held) bool { return h.Masked && h.Name == tool.Name })
}

// standing says whether the tools of a server can be called, and if not why.
func standing(s catalog.Server) (state string, reasons []string) {
	reasons = catalog.NotRoutable(s)
	switch {
	case len(reasons) == 0:
		return stateReady, nil
	case slices.Contains(reasons, catalog.NotReviewed), slices.Contains(reasons, catalog.ToolsChanged):
		return stateTrust, reasons
	case slices.Contains(reasons, catalog.SwitchedOff), slices.Contains(reasons, catalog.ReviewSaidNo), slices.Contains(reasons, catalog.SharedWithNobody):
		return stateDisabled, reasons
	}
	return stateOffline, reasons
}

// published are the members of a tool that mcpx reads.
type published struct {
	Title       string          `json:"title"`
	Description string          `json:"description"`
	Schema      json.RawMessage `json:"inputSchema"`
	Annotations struct {
		Title     string `json:"title"`
		ReadOnly  bool   `json:"readOnlyHint"`
		OpenWorld *bool  `json:"openWorldHint"`
	} `json:"annotations"`
}

// publishedOf reads a tool. Members of another type than MCP says are as if they were not there.
func publishedOf(tool catalog.ToolPin) published {
	var p published
	if json.Unmarshal(tool.Tool, &p) != nil {
		var raw struct {
			Schema json.RawMessage `json:"inputSchema"`
		}
		_ = json.Unmarshal(tool.Tool, &raw) // it is an object: it has a pin
		return published{Schema: raw.Schema}
	}
	return p
}

// riskOf is the risk of a tool. What a server says of itself counts only when a person has agreed to it, and does not
// think that it could do much harm; what it does not say is the worst.
func riskOf(s catalog.Server, p published) Risk {
	switch {
	case !p.Annotations.ReadOnly || s.Review != catalog.ReviewApproved || s.Risk == catalog.RiskHigh:
		return RiskWrite
	case p.Annotations.OpenWorld == nil || *p.Annotations.OpenWorld:
		return RiskOpen
	}
	return RiskRead
}

func describe(s catalog.Server, tool catalog.ToolPin, state string) foundTool {
	p := publishedOf(tool)
	title := cmp.Or(p.Title, p.Annotations.Title)
	summary, _, _ := strings.Cut(strings.TrimSpace(p.Description), "\n")
	return foundTool{
		ID: s.Name + "/" + tool.Name, Kind: kindTool, Title: title, Summary: head([]byte(summary), maxToolLine), Risk: riskOf(s, p), State: state,
		Revision: tool.Digest, Schema: p.Schema, about: title + " " + p.Description,
	}
}

// byIDs are the tools with these ids, in their order.
func byIDs(all []foundTool, ids []string) ([]foundTool, error) {
	var out []foundTool
	for _, id := range ids {
		at := slices.IndexFunc(all, func(f foundTool) bool { return f.ID == id })
		if at < 0 {
			names := make([]string, 0, len(all))
			for _, f := range all {
				names = append(names, f.ID)
			}
			return nil, nearest(operation.Refuse(operation.NotFound, "nothing with the id %.128q is known", id).With("id", id), id, names)
		}
		out = append(out, all[at])
	}
	return out, nil
}

// nearest adds the name that was probably meant.
func nearest(r *operation.Refusal, name string, names []string) *operation.Refusal {
	if near := catalog.Nearest(name, names); near != "" {
		return r.With("nearest", near)
	}
	return r
}

func serverUnknown(name string, names []string) *operation.Refusal {
	return nearest(operation.Refuse("SERVER_UNKNOWN", "neither the catalog nor this project has a server %.64q", name), name, names)
}

// matching are the tools that have something of a query, the best first: those with most of its words, and of these those
// that have them in their name.
func matching(all []foundTool, query string) []foundTool {
	words := wordsOf(query)
	if len(words) == 0 {
		return all
	}
	type scored struct {
		foundTool
		words, weight int
	}
	var hits []scored
	for _, f := range all {
		hit := scored{foundTool: f}
		name, about := wordsOf(f.ID), strings.ToLower(f.about)
		for _, w := range words {
			switch {
			case slices.Contains(name, w):
				hit.weight += 4
			case strings.Contains(strings.ToLower(f.ID), w):
				hit.weight += 2
			case strings.Contains(about, w):
				hit.weight++
			default:
				continue
			}
			hit.words++
		}
		if hit.words > 0 {
			hits = append(hits, hit)
		}
	}
	slices.SortStableFunc(hits, func(a, b scored) int {
		return cmp.Or(cmp.Compare(b.words, a.words), cmp.Compare(b.weight, a.weight), strings.Compare(a.ID, b.ID))
	})
	out := make([]foundTool, 0, len(hits))
	for _, h := range hits {
		out = append(out, h.foundTool)
	}
	return out
}

// wordsOf are the words of a text in small letters. A name such as readFile is two.
func wordsOf(text string) []string {
	var b strings.Builder
	was := ' '
	for _, r := range text {
		if unicode.IsUpper(r) && unicode.IsLower(was) {
			b.WriteByte(' ')
		}
		b.WriteRune(unicode.ToLower(r))
		was = r
	}
	return strings.FieldsFunc(b.String(), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
}

// callable refuses a server that cannot be called as it is.
func callable(one catalog.Server) error {
	switch state, reasons := standing(one); state {
	case stateReady:
		return nil
	case stateTrust:
		return operation.Refuse(trustRequired, "no person has agreed to the server %s as it is; a person looks at it with `mcpx catalog review %s`", one.Name, one.Name).
			Retrying(fault.AfterWait).With("server", one.Name)
	default:
		return operation.Refuse(serverUnavailable, "the server %s is %s", one.Name, state).Retrying(fault.AfterWait).With("server", one.Name).With("reasons", reasons)
	}
}
