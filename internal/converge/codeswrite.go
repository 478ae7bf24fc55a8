package converge

// writeCodes are those of the writing of a file: why it is not written, and what a receipt tells of it.
var writeCodes = []Code{
	{"link-loop", KindError, "Symbolic links lead in a circle.", "correct the link"},
	{"link-outside-home", KindError, "The file is a link that leads out of the home or the project. What lies there is not changed.", "edit it by hand, or move it into the home"},
	{"file-irregular", KindError, "Something else than a regular file has the name: a directory, a pipe.", "put a file there"},
	{"file-unreadable", KindError, "The file cannot be read by mcpx.", "check its owner and mode"},
	{"file-immutable", KindError, "The file is marked so that nobody can change it.", "`chattr -i` (macOS: `chflags nouchg`) takes the mark away"},
	{"file-foreign-owner", KindError, "The file belongs to another user.", "give it back with `chown`"},
	{"file-read-only", KindError, "The file is read-only, so it is not meant to be changed.", "`chmod u+w` if it is"},
	{"file-hard-linked", KindError, "The file has several names. A new one would have the changed bytes, the others would keep the old ones.", "make it a file of its own: `cp -p FILE NEW && mv NEW FILE`"},
	{"directory-read-only", KindError, "No file can be made in the directory, so none can be replaced.", "check its mode, and whether its disk is mounted read-only"},
	{"file-in-use", KindError, "Another process has the file open for writing, or writes it all the time.", "close the program that does"},

	{"third-party-kept", KindNote, "Another process wrote the file at the same moment. What it wrote could not stay under its name, because something newer is there; it was kept in a file beside it.", "compare the two files, and delete the kept one"},
	{"client-lock-stale", KindNote, "The agent died while it wrote the file and left its lock. It was not removed, and the file was written all the same.", "start the agent once, or delete the lock"},
	{"file-left", KindNote, "A temporary file beside the changed one could not be removed.", "delete it"},
}
