package clientfile

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"mcpx/internal/converge"
)

// receipt is what an apply of the steps would have left, with its backup in place.
func (d desk) receipt(t *testing.T, l Location, before []byte, exists bool, steps ...converge.Step) (converge.Written, drafted) {
	t.Helper()
	dr, err := d.draft(d.look, converge.Drafting{Agent: string(l.Agent), Path: l.File.Path, Steps: steps}, before, exists)
	if err != nil {
		t.Fatalf("%v\n%s", err, before)
	}
	d.keep(t, before)
	r := converge.Written{
		Path: l.File.Path, Before: converge.Expected{Absent: true}, After: converge.Expected{SHA256: hashOf(dr.result)},
		Steps: steps, Leaves: dr.change.Leaves,
	}
	if exists {
		r.Before, r.Backup = converge.Expected{SHA256: hashOf(before)}, "0"
	}
	return r, dr
}

func (d desk) rollBack(l Location, now []byte, exists bool, r converge.Written, merge bool) (drafted, error) {
	return d.draft(d.look, converge.Drafting{
		Agent: string(l.Agent), Path: l.File.Path, Reverts: &r, Steps: []converge.Step{{Op: converge.StepRevert, Receipt: "rcp_1", Merge: merge}},
	}, now, exists)
}

// mergeCase is a file, what others make of it after the apply, and what the rollback gives.
type mergeCase struct {
	agent  Agent
	file   string
	before string
	step   converge.Step
	edits  []string // pairs: old, new; URL stands for the one that the apply wrote
	want   string
	clash  []string // at|before|applied|now
}

func mergeCases() map[string]mergeCase {
	set := converge.Step{Op: converge.StepSet, Name: "a", Want: viaHTTP}
	remove := converge.Step{Op: converge.StepRemove, Name: "a"}
	jsonFile := "{\n  \"mcpServers\": {\n    \"a\": {\n      \"command\": \"x\", // why\n      \"args\": [\"1\"],\n      \"timeout\": 5\n    },\n    \"z\": {\"command\": \"z\"}\n  }\n}\n"
	strict := strings.ReplaceAll(jsonFile, " // why", "")
	tomlFile := "# head\n[mcp_servers.a]\ncommand = \"x\"   # why\nargs = [\"1\"]\ntool_timeout_sec = 5\n\n[mcp_servers.z]\ncommand = \"z\"\n"
	yamlFile := "name: n\nmcpServers:\n  - name: a\n    command: x   # why\n    args: [\"1\"]\n    connectionTimeout: 5\n  - name: z\n    command: z\n"
	openFile := "{\n  // head\n  \"mcp\": {\n    \"a\": {\"type\": \"local\", \"command\": [\"x\", \"1\"], \"timeout\": 5,},\n  },\n}\n"
	return map[string]mergeCase{
		"json: a field is added": {
			Claude, "claude.json", strict, set,
			[]string{"\"URL\"\n", "\"URL\",\n      \"alwaysLoad\": true\n"},
			strings.Replace(strict, "\"timeout\": 5\n", "\"timeout\": 5,\n      \"alwaysLoad\": true\n", 1), nil,
		},
		"json: a kept field is changed, and the file": {
			Claude, "claude.json", strict, set,
			[]string{"\"timeout\": 5", "\"timeout\": 7", "{\n  \"mcp", "{\n  \"n\": 1,\n  \"mcp", "\"z\": {\"command\": \"z\"}", "\"z\": {\"command\": \"zz\"},\n    \"y\": {}"},
			strings.NewReplacer("\"timeout\": 5", "\"timeout\": 7", "{\n  \"mcp", "{\n  \"n\": 1,\n  \"mcp", "\"z\": {\"command\": \"z\"}", "\"z\": {\"command\": \"zz\"},\n    \"y\": {}").Replace(strict), nil,
		},
		"json: a kept field goes": {
			Claude, "claude.json", strict, set,
			[]string{"\"timeout\": 5,\n", "@@\n", "      @@\n", ""},
			"{\n  \"mcpServers\": {\n    \"a\": {\n      \"command\": \"x\",\n      \"args\": [\n        \"1\"\n      ]\n    },\n    \"z\": {\"command\": \"z\"}\n  }\n}\n", nil,
		},
		"json: the URL is changed": {
			Claude, "claude.json", strict, set,
			[]string{"URL", "http://h/mcp"},
			"",
			[]string{"mcpServers.a.url||\"URL\"|\"http://h/mcp\""},
		},
		"json: the entry is gone": {
			Claude, "claude.json", strict, set,
			[]string{strict, "{\"mcpServers\": {}}"},
			"",
			[]string{"mcpServers.a|{\"command\": \"x\", \"args\": [\"1\"], \"timeout\": 5}|{\"timeout\": 5, \"type\": \"http\", \"url\": \"URL\"}|"},
		},
		"json: what was removed is there again": {
			Claude, "claude.json", strict, remove,
			[]string{"\"z\": {", "\"a\": {\"command\": \"y\"},\n    \"z\": {"},
			"",
			[]string{"mcpServers.a|{\"command\": \"x\", \"args\": [\"1\"], \"timeout\": 5}||{\"command\": \"y\"}"},
		},
		"json: what was added has more now": {
			Claude, "claude.json", "{\"mcpServers\": {}}", set,
			[]string{"\"type\"", "\"timeout\": 1, \"type\""},
			"",
			[]string{"mcpServers.a||{\"type\": \"http\", \"url\": \"URL\"}|{\"timeout\": 1, \"type\": \"http\", \"url\": \"URL\"}"},
		},
		"json: others have taken a part of it back": {
			Claude, "claude.json", strict, set,
			[]string{"\"type\": \"http\",\n      \"url\": \"URL\"\n", "\"command\": \"x\"\n"},
			"{\n  \"mcpServers\": {\n    \"a\": {\n      \"timeout\": 5,\n      \"command\": \"x\",\n      \"args\": [\n        \"1\"\n      ]\n    },\n    \"z\": {\"command\": \"z\"}\n  }\n}\n", nil,
		},
		"jsonc: comments around": {
			Gemini, "settings.json", jsonFile, set,
			[]string{"{\n  \"mcp", "{ // mine\n  \"mcp", "\"timeout\": 5", "\"timeout\": 6 /* longer */", "}\n}\n", "}\n  // end\n}\n"},
			strings.NewReplacer("{\n  \"mcp", "{ // mine\n  \"mcp", "\"timeout\": 5", "\"timeout\": 6 /* longer */", "}\n}\n", "}\n  // end\n}\n").Replace(jsonFile), nil,
		},
		"jsonc: on one line, with trailing commas": {
			OpenCode, "opencode.jsonc", openFile, set,
			[]string{"\"timeout\": 5", "\"timeout\": 9", "// head", "// top", "  },\n}", "    \"b\": {\"enabled\": false},\n  },\n}"},
			strings.NewReplacer("\"timeout\": 5", "\"timeout\": 9", "// head", "// top", "  },\n}", "    \"b\": {\"enabled\": false},\n  },\n}").Replace(openFile), nil,
		},
		"jsonc: the type is changed": {
			OpenCode, "opencode.jsonc", openFile, set,
			[]string{"\"remote\"", "\"local\""},
			"",
			nil, // it is what it was: only the other fields go back, see want below
		},
		"toml: a comment and a field": {
			Codex, "config.toml", tomlFile, set,
			[]string{"# head", "# top\n[tui]\nx = 1", "tool_timeout_sec = 5", "tool_timeout_sec = 8 # longer\nenabled_tools = [\"t\"]"},
			strings.NewReplacer("# head", "# top\n[tui]\nx = 1", "tool_timeout_sec = 5", "tool_timeout_sec = 8 # longer\nenabled_tools = [\"t\"]").Replace(tomlFile), nil,
		},
		"toml: the URL is changed": {
			Codex, "config.toml", tomlFile, set, []string{"URL", "http://h/mcp"}, "", []string{"mcp_servers.a.url||\"URL\"|\"http://h/mcp\""},
		},
		"toml: a header of the other form": {
			Codex, "config.toml", tomlFile, set, []string{"tool_timeout_sec = 5", "tool_timeout_sec = 5\nhttp_headers = { K = \"v\" }"}, "", []string{"would-break"},
		},
		"yaml: an item is put in front": {
			Continue, "config.yaml", yamlFile, set,
			[]string{"mcpServers:\n", "mcpServers:\n  - name: b\n    command: b\n", "connectionTimeout: 5", "connectionTimeout: 6 # longer"},
			strings.NewReplacer("mcpServers:\n", "mcpServers:\n  - name: b\n    command: b\n", "connectionTimeout: 5", "connectionTimeout: 6 # longer").Replace(yamlFile), nil,
		},
		"yaml: two of one name": {
			Continue, "config.yaml", yamlFile, set,
			[]string{"  - name: z\n    command: z\n", "  - name: a\n    command: z\n", "connectionTimeout: 5", "connectionTimeout: 6"},
			"",
			[]string{"mcpServers.0|{\"name\": \"a\", \"command\": \"x\", \"args\": [\"1\"], \"connectionTimeout\": 5}|{\"name\": \"a\", \"connectionTimeout\": 5, \"type\": \"streamable-http\", \"url\": \"URL\"}|{\"name\": \"a\", \"connectionTimeout\": 6, \"type\": \"streamable-http\", \"url\": \"URL\"}"},
		},
		"yaml: what was removed is there again": {
			Continue, "config.yaml", yamlFile, remove,
			[]string{"  - name: z\n", "  - name: a\n    command: y\n  - name: z\n"},
			"",
			[]string{"mcpServers.0|{\"name\": \"a\", \"command\": \"x\", \"args\": [\"1\"], \"connectionTimeout\": 5}||{\"name\": \"a\", \"command\": \"y\"}"},
		},
		"yaml: the URL is changed": {
			Continue, "config.yaml", yamlFile, set, []string{"URL", "http://h/mcp"}, "", []string{"mcpServers.0.url||\"URL\"|\"http://h/mcp\""},
		},
	}
}

// TestMergeRollback: only what the apply did goes back, byte for byte where that is possible, and what others wrote since
// stays. What would be a guess is a conflict with its three contents.
func TestMergeRollback(t *testing.T) {
	desk := newDesk(t)
	for name, tc := range mergeCases() {
		t.Run(name, func(t *testing.T) {
			l := desk.place(t, tc.agent, tc.file)
			r, dr := desk.receipt(t, l, []byte(tc.before), true, tc.step)
			now := string(dr.result)
			for pair := range slices.Chunk(tc.edits, 2) {
				from := strings.ReplaceAll(pair[0], "URL", viaHTTP.URL)
				if from == tc.before {
					now = pair[1]
					continue
				}
				if strings.Count(now, from) != 1 {
					t.Fatalf("%q is %d times in\n%s", from, strings.Count(now, from), now)
				}
				now = strings.Replace(now, from, strings.ReplaceAll(pair[1], "URL", viaHTTP.URL), 1)
			}
			got, err := desk.rollBack(l, []byte(now), true, r, true)
			if diff := clashes(err); !slices.Equal(diff, tc.clash) {
				t.Fatalf("conflicts\n%q, want\n%q (%v)\nof\n%s", diff, tc.clash, err, now)
			}
			if tc.clash != nil {
				return
			}
			if tc.want == "" {
				tc.want = openAfterType
			}
			if string(got.result) != tc.want {
				t.Errorf("got\n%s\nwant\n%s\nfrom\n%s", got.result, tc.want, now)
			}
			unchanged(t, []byte(now), got)
			// The rollback can be taken back, and gives what was there.
			again := converge.Written{Path: l.File.Path, Before: converge.Expected{SHA256: hashOf([]byte(now))}, After: converge.Expected{SHA256: hashOf(got.result)}, Backup: "0", Leaves: got.change.Leaves}
			desk.keep(t, []byte(now))
			if redone, err := desk.rollBack(l, got.result, true, again, false); err != nil || string(redone.result) != now {
				t.Errorf("the rollback of the rollback: %s %v", redone.result, err)
			}
		})
	}
}

// openAfterType is the file of OpenCode whose type somebody has changed to what it was before.
const openAfterType = "{\n  // head\n  \"mcp\": {\n    \"a\": {\"type\": \"local\", \"timeout\": 5, \"command\": [\"x\", \"1\"], },\n  },\n}\n"

// clashes tells conflicts, or the code of another refusal.
func clashes(err error) []string {
	if err == nil {
		return nil
	}
	all, ok := errors.AsType[converge.Conflicts](err)
	if !ok || codeOf(err) != "merge-conflict" {
		return []string{codeOf(err)}
	}
	var out []string
	for _, c := range all {
		out = append(out, strings.ReplaceAll(strings.Join([]string{strings.Join(c.At, "."), c.Before, c.Applied, c.Now}, "|"), viaHTTP.URL, "URL"))
	}
	return out
}

// TestMergeNeedsAnEntry: what is no entry of an agent, or is not there, is refused.
func TestMergeNeedsAnEntry(t *testing.T) {
	desk := newDesk(t)
	l := desk.place(t, Claude, "claude.json")
	set := converge.Step{Op: converge.StepSet, Name: "a", Want: viaHTTP}
	before := []byte("{\"mcpServers\": {\"a\": {\"command\": \"x\", \"timeout\": 1}}}")
	r, dr := desk.receipt(t, l, before, true, set)
	if _, err := desk.rollBack(l, nil, false, r, true); codeOf(err) != "merge-conflict" || !strings.Contains(err.Error(), "is gone") {
		t.Errorf("the file is gone: %v", err)
	}
	changed := bytes.Replace(dr.result, []byte(`"timeout": 1`), []byte(`"timeout": 2`), 1)
	if _, err := desk.rollBack(l, changed, true, r, false); codeOf(err) != "changed-since" {
		t.Errorf("without --merge: %v", err)
	}
	// A receipt of a version that wrote something else: what it wrote is not known.
	foreign := r
	foreign.Steps = []converge.Step{{Op: converge.StepSet, Name: "a", Want: viaBridge}}
	if _, err := desk.rollBack(l, changed, true, foreign, true); len(clashes(err)) != 1 || !strings.Contains(err.Error(), "cannot be told") {
		t.Errorf("another version: %v", err)
	}
	// The same entry in other bytes is known by its digest.
	foreign = r
	foreign.After.SHA256 = hashOf([]byte("other bytes"))
	if got, err := desk.rollBack(l, changed, true, foreign, true); err != nil || !strings.Contains(string(got.result), `"timeout": 2`) || !strings.Contains(string(got.result), `"command": "x"`) {
		t.Errorf("other bytes: %s %v", got.result, err)
	}
	gone := converge.Written{Path: l.File.Path, Before: r.Before, Backup: "0", After: converge.Expected{Absent: true}, Leaves: r.Leaves}
	if _, err := desk.rollBack(l, before, true, gone, true); codeOf(err) != "merge-conflict" {
		t.Errorf("made again: %v", err)
	}
	unit := converge.Drafting{Path: l.File.Path + ".service", Reverts: &converge.Written{
		Path: l.File.Path + ".service", Before: r.Before, Backup: "0", After: converge.Expected{SHA256: hashOf([]byte("unit"))},
	}, Steps: []converge.Step{{Op: converge.StepRevert, Receipt: "rcp_1", Merge: true}}}
	if _, err := desk.draft(desk.look, unit, []byte("unit, edited"), true); codeOf(err) != "merge-conflict" {
		t.Errorf("a file that is no agent's: %v", err)
	}
}

// TestMergeAfterRollback: the rollback of a rollback joins, too: what it left is found out by doing it once more.
func TestMergeAfterRollback(t *testing.T) {
	h := newHouse(t)
	old := "{\n  \"mcpServers\": {\n    \"gw\": {\n      \"command\": \"direct\",\n      \"timeout\": 1\n    }\n  }\n}\n"
	h.write(claudeFile, old)
	written, err := h.apply(h.draft(Claude, claudeFile, route))
	if err != nil {
		t.Fatal(err)
	}
	roll := func(receipt, by string, w converge.Written, merge bool) converge.Written {
		t.Helper()
		c, err := h.files.Read(h.look).Draft(t.Context(), converge.Drafting{
			Agent: string(Claude), Path: h.path(claudeFile), Reverts: &w, Steps: []converge.Step{{Op: converge.StepRevert, Receipt: receipt, Merge: merge}},
		})
		if err != nil {
			t.Fatal(err)
		}
		all, err := h.files.Apply(t.Context(), h.look, by, []converge.Change{c}, nil)
		if err != nil {
			t.Fatal(err)
		}
		return all[0]
	}
	applied := h.read(claudeFile)
	back := roll(testReceipt, "rcp_2", written[0], false)
	h.write(claudeFile, strings.Replace(old, "\"timeout\": 1", "\"timeout\": 2", 1))
	forth := roll("rcp_2", "rcp_3", back, true)
	if want := strings.Replace(applied, "\"timeout\": 1", "\"timeout\": 2", 1); h.read(claudeFile) != want {
		t.Errorf("got\n%s\nwant\n%s", h.read(claudeFile), want)
	}
	h.write(claudeFile, strings.Replace(h.read(claudeFile), "\"timeout\": 2", "\"timeout\": 3", 1))
	roll("rcp_3", "rcp_4", forth, true)
	if want := strings.Replace(old, "\"timeout\": 1", "\"timeout\": 3", 1); h.read(claudeFile) != want {
		t.Errorf("got\n%s\nwant\n%s", h.read(claudeFile), want)
	}
}

// TestConflictsTellNoSecret: what a conflict shows has no value of a variable, a header or a secret.
func TestConflictsTellNoSecret(t *testing.T) {
	desk := newDesk(t)
	l := desk.place(t, Claude, "claude.json")
	before := `{"mcpServers": {"a": {"command": "x", "args": ["--token", "planted-arg"], "env": {"S": "planted-env", "N": 918273645}}}}`
	r, dr := desk.receipt(t, l, []byte(before), true, converge.Step{Op: converge.StepSet, Name: "a", Want: viaHTTP})
	now := strings.Replace(string(dr.result), viaHTTP.URL, "https://u:planted-password@h/?api_key=planted-key", 1)
	now = strings.Replace(now, `"url"`, `"args": ["planted-other"], "headers": {"Authorization": "Bearer planted-header"}, "env": {"S": "planted-now"}, "url"`, 1)
	_, err := desk.rollBack(l, []byte(now), true, r, true)
	all, _ := errors.AsType[converge.Conflicts](err)
	if len(all) < 3 {
		t.Fatalf("%v %v", all, err)
	}
	if told := fmt.Sprint(all, err); strings.Contains(told, "planted") && !strings.Contains(told, "planted-other") || strings.Contains(told, "918273645") {
		t.Errorf("a secret is told: %s", told)
	}
	for _, c := range all {
		for _, text := range []string{c.Before, c.Applied, c.Now} {
			for _, secret := range []string{"planted-arg", "planted-env", "planted-password", "planted-key", "planted-header", "planted-now"} {
				if strings.Contains(text, secret) {
					t.Errorf("%v tells %s: %s", c.At, secret, text)
				}
			}
		}
	}
}

// TestMergeKeepsForeignEdits: whatever others write around our entry, and into it beside what we wrote, the rollback gives
// the file that they would have made of the one before: byte for byte when a line stays between their edits and ours.
func TestMergeKeepsForeignEdits(t *testing.T) {
	desk := newDesk(t)
	n := 600
	if raceOn {
		n = 100
	}
	for name, tc := range map[string]struct {
		agent     Agent
		file      string
		container string
		write     func(g invented) []byte
	}{
		"json": {Claude, "claude.json", "mcpServers", func(g invented) []byte { return (&manners{Rand: g.Rand}).one() }},
		"jsonc": {Gemini, "settings.json", "mcpServers", func(g invented) []byte {
			return (&manners{Rand: g.Rand, l: lenience{comments: true}}).one()
		}},
		"toml": {Codex, "config.toml", "mcp_servers", func(g invented) []byte { return (&tomlPage{invented: g}).one() }},
		"yaml": {Continue, "config.yaml", "mcpServers", func(g invented) []byte { return (&yamlPage{invented: g}).one() }},
	} {
		t.Run(name, func(t *testing.T) {
			l := desk.place(t, tc.agent, tc.file)
			d := dialectOf(tc.agent)
			tried, exact := 0, 0
			for i := range n {
				g := invented{rand.New(rand.NewPCG(7, uint64(i)))}
				data, ok := withEntries(g, d, tc.container, tc.write(g))
				if !ok {
					continue
				}
				f, ok := desk.foreign(t, g, l, d, tc.container, data)
				if !ok {
					continue
				}
				tried++
				got, err := desk.rollBack(l, f.now, true, f.receipt, true)
				if err != nil {
					t.Fatalf("document %d: %v\n%q\n%q", i, err, data, f.now)
				}
				if want, err := d.parse(f.want); err != nil || !same(want, parsed(t, d, got.result)) {
					t.Fatalf("document %d: another tree: %v\nbefore %q\nnow    %q\ngot    %q\nwant   %q", i, err, data, f.now, got.result, f.want)
				}
				if f.apart {
					exact++
					if !bytes.Equal(got.result, f.want) {
						t.Fatalf("document %d: other bytes\nbefore %q\nnow    %q\ngot    %q\nwant   %q", i, data, f.now, got.result, f.want)
					}
				}
			}
			t.Logf("%d files, %d of them to the byte", tried, exact)
			if tried < n/3 || exact < tried/5 {
				t.Errorf("only %d of %d files were tried, and %d compared byte for byte", tried, n, exact)
			}
		})
	}
}

func parsed(t *testing.T, d dialect, data []byte) node {
	t.Helper()
	n, err := d.parse(data)
	if err != nil {
		t.Fatalf("%v\n%q", err, data)
	}
	return n
}

// withEntries puts some servers into a generated document, ours among them or not.
func withEntries(g invented, d dialect, container string, data []byte) ([]byte, bool) {
	root, err := d.parse(data)
	if err != nil || root.kind != object || len(data) == 0 {
		return nil, false
	}
	servers := node{kind: object}
	if d.format == YAML {
		servers.kind = list
	}
	for i := range g.IntN(4) {
		entry := things("command", word(fmt.Sprintf("prog%d", i)), "args", words("x", fmt.Sprint(i)))
		name := fmt.Sprintf("s%d", i)
		if i == 1 {
			name = "ours"
		}
		if d.format == YAML {
			entry.fields = slices.Insert(entry.fields, 0, field{"name", *word(name)})
			servers.items = append(servers.items, *entry)
		} else {
			servers.fields = append(servers.fields, field{name, *entry})
		}
	}
	spans, err := d.splice(data, []op{{at: []string{container}, value: &servers}})
	if err != nil {
		return nil, false
	}
	return applySpans(data, spans), true
}

// foreignEdit is a file that others have changed after an apply.
type foreignEdit struct {
	receipt   converge.Written
	now, want []byte // want: the same edits without the apply
	apart     bool   // the edits are the same bytes in both, and none is at one of ours
}

// foreign applies a change of ours, and random ones of others outside of our entry.
func (d desk) foreign(t *testing.T, g invented, l Location, syntax dialect, container string, data []byte) (foreignEdit, bool) {
	t.Helper()
	step := converge.Step{Op: converge.StepSet, Name: "ours", Want: viaHTTP}
	root := parsed(t, syntax, data)
	at := []string{container, "ours"}
	there := lookup(root, at).kind != absent
	if syntax.format == YAML {
		at = []string{container, "1"}
		there = lookup(root, at).kind != absent
	}
	if there && g.IntN(3) == 0 {
		step = converge.Step{Op: converge.StepRemove, Name: "ours"}
	}
	drafting := converge.Drafting{Agent: string(l.Agent), Path: l.File.Path, Steps: []converge.Step{step}}
	dr, err := d.draft(d.look, drafting, data, true)
	if err != nil {
		return foreignEdit{}, false
	}
	d.keep(t, data)
	f := foreignEdit{receipt: converge.Written{
		Path: l.File.Path, Before: converge.Expected{SHA256: hashOf(data)}, After: converge.Expected{SHA256: hashOf(dr.result)}, Backup: "0",
		Steps: drafting.Steps, Leaves: dr.change.Leaves,
	}}
	ops := slices.DeleteFunc(g.changes(root), func(o op) bool {
		if len(o.at) == 1 && o.at[0] == container || syntax.format == YAML && o.at[0] == container {
			return true // items of the list would have other numbers
		}
		return o.at[0] == container && len(o.at) > 1 && o.at[1] == "ours"
	})
	if there && step.Op == converge.StepSet && g.IntN(2) == 0 { // they may write into our entry, too
		ops = append(ops, op{at: join(at, []string{"timeout"}), value: digit("7")})
	}
	theirs, err := syntax.splice(dr.result, ops)
	if err != nil || len(theirs) == 0 {
		return foreignEdit{}, false
	}
	alone, err := syntax.splice(data, ops)
	if err != nil {
		return foreignEdit{}, false
	}
	f.now, f.want = applySpans(dr.result, theirs), applySpans(data, alone)
	if o := Read(l, f.now, d.cfg.Hub(d.look)); hasCode(o.Problems, "config-broken") {
		return foreignEdit{}, false
	}
	if o := Read(l, f.want, d.cfg.Hub(d.look)); hasCode(o.Problems, "config-broken") {
		return foreignEdit{}, false
	}
	f.apart = apart(dr.spans, alone, theirs) && parted(dr.result, f.now, inverse(data, dr.spans), theirs)
	return f, true
}

// parted says whether between each edit of ours and each of theirs a line stays that both contents have once.
func parted(applied, now []byte, ours, theirs []span) bool {
	count := func(data []byte) map[string]int {
		all := map[string]int{}
		for line := range bytes.Lines(data) {
			all[string(line)]++
		}
		return all
	}
	before, after := count(applied), count(now)
	for _, o := range ours {
		for _, x := range theirs {
			from, to := o.end, x.start
			if x.start < o.start {
				from, to = x.end, o.start
			}
			between := bytes.SplitAfter(applied[from:max(from, to)], []byte("\n"))
			if len(between) < 3 || !slices.ContainsFunc(between[1:len(between)-1], func(line []byte) bool {
				return before[string(line)] == 1 && after[string(line)] == 1 && bytes.ContainsFunc(line, isWord)
			}) {
				return false
			}
		}
	}
	return true
}

// apart says whether others make the same edits with and without ours, and none of them where one of ours is.
func apart(ours, alone, theirs []span) bool {
	if len(alone) != len(theirs) {
		return false
	}
	for i, a := range alone {
		moved := 0
		for _, o := range ours {
			if a.start <= o.end && o.start <= a.end {
				return false
			}
			if o.end < a.start {
				moved += len(o.text) - (o.end - o.start)
			}
		}
		if b := theirs[i]; a.start+moved != b.start || a.end+moved != b.end || !bytes.Equal(a.text, b.text) {
			return false
		}
	}
	return true
}
