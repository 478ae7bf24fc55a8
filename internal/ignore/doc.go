// Package ignore decides which entries of a tree its ignore files (.gitignore, the exclude file of a repository) leave out,
// as git does: the last pattern that fits counts, and of two files the deeper one. It refuses to know where the files lie
// and what is tracked; walks hand it the bytes, and do not go into a directory that is ignored.
//
// Invariant: for every ignore file and every path it answers as `git check-ignore --no-index`, in time that grows at most
// with the square of the path.
package ignore
