// Command testsum reads `go test -json` on standard input and prints what a person wants of
// it: each package's outcome, the output of failed tests, every skip with its reason, and last
// a line that counts: N passed, N failed, N skipped. With -o it also adds the counts to
// a file, so that several runs can be summed up. It exits with 1 if anything failed.
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
)

type event struct {
	Action, Package, Test, Output string
	Elapsed                       float64
}

type summary struct {
	passed, failed, skipped int
	skips                   []string
	output                  map[string][]string // of packages and tests that run
	failures                map[string]bool     // packages with a failed test
}

func main() {
	total := flag.String("o", "", "file to add the counts to")
	bench := flag.Bool("bench", false, "a run of benchmarks: no test need run")
	flag.Parse()
	s := &summary{output: map[string][]string{}, failures: map[string]bool{}}
	if err := s.read(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "testsum:", err)
		os.Exit(1)
	}
	s.print(os.Stdout)
	if *total != "" {
		if err := s.add(*total); err != nil {
			fmt.Fprintln(os.Stderr, "testsum:", err)
			os.Exit(1)
		}
	}
	if s.failed > 0 || (s.passed+s.skipped == 0 && !*bench) {
		os.Exit(1)
	}
}

func (s *summary) read(in io.Reader, out io.Writer) error {
	lines := bufio.NewReader(in)
	for {
		line, err := lines.ReadString('\n')
		if line != "" {
			var e event
			if json.Unmarshal([]byte(line), &e) == nil && e.Action != "" {
				s.note(e, out)
			} else {
				// A build error, which go test prints as text.
				fmt.Fprint(out, line)
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func (s *summary) note(e event, out io.Writer) {
	key := e.Package + " " + e.Test
	switch e.Action {
	case "output", "build-output":
		s.output[key] = append(s.output[key], e.Output)
		return
	case "pass":
		if e.Test == "" {
			fmt.Fprintf(out, "ok    %s (%.1fs)\n", e.Package, e.Elapsed)
			for _, l := range s.output[key] {
				if strings.HasPrefix(l, "Benchmark") || strings.Contains(l, "fuzz: ") {
					fmt.Fprint(out, l)
				}
			}
		} else {
			s.passed++
		}
	case "fail", "build-fail":
		// A package that fails without a failed test did not build, or died outside one.
		if e.Test != "" || !s.failures[e.Package] {
			s.failed++
		}
		s.failures[e.Package] = true
		fmt.Fprintf(out, "FAIL  %s %s (%.1fs)\n%s", e.Package, e.Test, e.Elapsed, strings.Join(s.output[key], ""))
	case "skip":
		if e.Test != "" {
			s.skipped++
			s.skips = append(s.skips, e.Package+" "+e.Test+": "+reason(s.output[key]))
		}
	default:
		return
	}
	delete(s.output, key)
}

func reason(output []string) string {
	for _, l := range slices.Backward(output) {
		l = strings.TrimSpace(l)
		if l != "" && !strings.HasPrefix(l, "---") && !strings.HasPrefix(l, "===") {
			return l
		}
	}
	return ""
}

func (s *summary) print(out io.Writer) {
	slices.Sort(s.skips)
	for _, skip := range s.skips {
		fmt.Fprintln(out, "skip ", skip)
	}
	fmt.Fprintf(out, "%d passed, %d failed, %d skipped\n", s.passed, s.failed, s.skipped)
}

// add adds the counts to the file: a line each run.
func (s *summary) add(path string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	fmt.Fprintln(f, s.passed, s.failed, s.skipped)
	return f.Close()
}
