package policy

import "unicode/utf8"

// JudgeInput decides about text that is written to the standard input of a job that runs: to a shell or interpreter that
// reads its program from there it is a program, to every other command it is data. The error is a *Problem.
func JudgeInput(c Command, text string, w World, rules Rules) (Verdict, error) {
	c.Stdin = &text
	j, err := newJudge(c, w, rules)
	if err != nil {
		return Verdict{}, err
	}
	j.silent = true
	if err := j.command(); err != nil {
		return Verdict{}, err
	}
	j.silent = false
	plain := allowed("input.data", "the command does not run what it reads")
	if j.fed {
		j.record(position{}, text, &plain, confirm("interp", "the command runs what it reads from standard input"))
	} else {
		j.record(position{}, text, &plain)
	}
	if !utf8.ValidString(text) && j.fed {
		j.record(position{}, text, nil, confirm("interp", "the input is not UTF-8 and cannot be judged"))
	}
	return j.verdict(), nil
}

// feed begins a part in which the standard input of the job is judged as a program. The result ends it.
func (j *judge) feed() func() {
	before := j.silent
	j.fed, j.silent = true, false
	return func() { j.silent = before }
}
