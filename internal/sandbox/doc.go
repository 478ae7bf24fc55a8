// Package sandbox decides how a command is kept inside of the directories that it may change: with bubblewrap, or with
// Landlock, seccomp and no_new_privs. It tries a mechanism before it relies on it, and tells what is missing. It refuses to
// know why a command is run, whether it may be, and who waits for its end.
//
// Invariant: a command is started as strictly as was asked for, or not at all. The daemon itself is never restricted: the
// rules are put in force by a stub of this program that becomes the command.
package sandbox
