package converge

// draftCodes are those of a change of bytes: why there is none, and what its diff cannot show.
var draftCodes = []Code{
	{"config-broken", KindError, "The agent cannot read the file, so nothing in it is changed.", "correct it by hand; `mcpx config discover` shows line and column"},
	{"config-absent", KindError, "The directory of the file does not exist: the agent was never started here.", "start the agent once"},
	{"config-unknown", KindError, "The agent does not look for servers in this file.", "`mcpx config discover` shows where it looks"},
	{"unsupported-file", KindError, "The file is not edited: it is not UTF-8, larger than 16 MiB, or nested deeper than 200 levels.", "change it in the agent"},
	{"duplicate-keys", KindError, "A name stands more than once in its object, and the agent takes the last one.", "delete the others by hand"},
	{"yaml-anchored", KindError, "The entry uses anchors, aliases, tags or merge keys, which a change of one place would change elsewhere.", "change it by hand"},
	{"wrong-type", KindError, "Something else stands where the servers should be.", "correct it by hand"},
	{"entry-broken", KindError, "The entry is no object.", "correct it by hand"},
	{"entry-absent", KindError, "The entry is no longer there.", "`mcpx audit run` looks again"},
	{"value-absent", KindError, "The value that was to move is no longer there.", "`mcpx audit run` looks again"},
	{"form-unsupported", KindError, "The agent has no way to write this form.", "use the form bridge"},
	{"nothing-to-change", KindError, "The file is as it should be already.", ""},
	{"would-break", KindError, "The agent would refuse the changed file or entry.", "change the entry in the agent"},
	{"verify-failed", KindError, "The change would not be exactly what was asked for. This is a defect of mcpx.", "change the entry in the agent, and report it"},
	{"changed-since", KindError, "Somebody changed the file where the rollback would write.", "`mcpx rollback RECEIPT --merge` keeps what was written since"},
	{"merge-conflict", KindError, "The apply and somebody else changed the same place of an entry, so taking the one back and keeping the other would be a guess.", "make each place that the plan shows what it was before or what was applied, then `mcpx rollback RECEIPT --merge` again"},
	{"backup-damaged", KindError, "The backup is not what was written to it, or is gone.", "`mcpx audit verify` checks all of them"},

	{"context-may-move", KindNote, "The agent rewrites the file while it runs. The plan holds as long as the entry is the same; other lines may differ.", ""},
	{"plans-together", KindNote, "Another plan of the same command wrote the file right before. The receipt has the difference that was written.", ""},
	{"byte-order-mark", KindNote, "The file begins with a byte order mark, which stays.", ""},
	{"line-ends", KindNote, "Lines end in CR LF, all or some. They stay, and new lines are like their neighbours.", ""},
	{"invisible-characters", KindNote, "The lines of the diff hold characters that do not show.", "look at the file with an editor that shows them"},
	{"lossy-comment", KindNote, "Comments stand in what goes, and go with it.", "copy them before the plan is applied"},
	{"field-not-kept", KindNote, "The agent has no place for a field of the server, such as its directory.", ""},
	{"third-party-edit", KindNote, "Something else changed the file in between.", "look at the file"},
}
