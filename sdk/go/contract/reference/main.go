// Command reference prints docs/reference/go.md, generated from the doc comments of the Go SDK: `make docs`. The
// argument is the folder of the module.
package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/doc"
	"go/parser"
	"go/printer"
	"go/token"
	"os"
	"path/filepath"
	"strings"
)

const module = "github.com/windlass/windlass/sdk/go"

const head = `# Go SDK

Every exported name, with the first sentence of its comment; ` + "`go doc`" + ` prints the whole. ` + "`make docs`" + ` generates this
page. [Use Windlass from Go](../how-to/getting-started-go.md) shows how they are used.

`

// Names of the package windlass that belong to the worker; all others belong to the client.
var workerFiles = map[string]bool{"worker.go": true, "job.go": true, "logs.go": true, "failure.go": true}

var generated = map[string]bool{"operations.go": true, "types.go": true}

func main() {
	folder := os.Args[1]
	client := load(folder, module)
	fmt.Print(head)
	section("Client", "`import windlass \""+module+"\"`", client.rows(func(file string) bool {
		return !workerFiles[file] && !generated[file]
	}))
	section("Operations of the client", "The operations of the [HTTP API](http-operations.md), in groups by noun. `p` has the "+
		"parameters that are not part of the path; nil means none.", client.operations())
	section("Types of the client", "What operations take and return.", client.generatedTypes())
	section("Worker", "Of the same package.", client.rows(func(file string) bool { return workerFiles[file] }))
	inbox := load(filepath.Join(folder, "inbox"), module+"/inbox")
	section("Inbox", "`import \""+module+"/inbox\"`: jobs, schedules and a worker over plain SQL.",
		inbox.rows(func(string) bool { return true }))
}

func section(title, text string, rows []string) {
	fmt.Printf("## %s\n\n%s\n\n| name | |\n|---|---|\n%s\n", title, text, strings.Join(rows, ""))
}

// pkg is a package with its doc comments.
type pkg struct {
	*doc.Package
	files *token.FileSet
}

func load(folder, path string) *pkg {
	set := token.NewFileSet()
	names, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil {
		panic(err)
	}
	var files []*ast.File
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(set, name, nil, parser.ParseComments)
		if err != nil {
			panic(err)
		}
		files = append(files, file)
	}
	described, err := doc.NewFromFiles(set, files, path)
	if err != nil {
		panic(err)
	}
	return &pkg{described, set}
}

func (p *pkg) file(node ast.Node) string { return filepath.Base(p.files.Position(node.Pos()).Filename) }

// rows returns the table rows of the exported names in the chosen files.
func (p *pkg) rows(isChosen func(file string) bool) []string {
	var rows []string
	for _, one := range p.Types {
		if isChosen(p.file(one.Decl)) {
			rows = append(rows, p.row(one.Name, one.Doc))
			rows = append(rows, p.fields(one)...)
		}
		for _, method := range append(one.Funcs, one.Methods...) {
			if isChosen(p.file(method.Decl)) {
				rows = append(rows, p.row(p.signature(method), method.Doc))
			}
		}
	}
	for _, one := range p.Funcs {
		if isChosen(p.file(one.Decl)) {
			rows = append(rows, p.row(p.signature(one), one.Doc))
		}
	}
	for _, group := range append(p.Vars, p.Consts...) {
		for _, spec := range group.Decl.Specs {
			value, ok := spec.(*ast.ValueSpec)
			if !ok || !isChosen(p.file(spec)) {
				continue
			}
			for _, name := range value.Names {
				if name.IsExported() {
					rows = append(rows, p.row(name.Name, value.Doc.Text()))
				}
			}
		}
	}
	return rows
}

// fields returns the rows of the exported fields of a struct.
func (p *pkg) fields(one *doc.Type) []string {
	structure, ok := one.Decl.Specs[0].(*ast.TypeSpec).Type.(*ast.StructType)
	if !ok {
		return nil
	}
	var rows []string
	for _, field := range structure.Fields.List {
		for _, name := range field.Names {
			if name.IsExported() {
				rows = append(rows, p.row(one.Name+"."+name.Name+" "+p.printed(field.Type), field.Doc.Text()))
			}
		}
	}
	return rows
}

// operations returns the rows of the methods of the client and of its services.
func (p *pkg) operations() []string {
	var rows []string
	for _, one := range p.Types {
		group, isService := strings.CutSuffix(one.Name, "Service")
		if !isService && one.Name != "Client" {
			continue
		}
		place := "client."
		if isService {
			place += group + "."
		}
		for _, method := range one.Methods {
			rows = append(rows, p.row(place+strings.TrimPrefix(p.signature(method), one.Name+"."), method.Doc))
		}
	}
	return rows
}

// generatedTypes returns the rows of the types of operations; the row of an enumeration has its values.
func (p *pkg) generatedTypes() []string {
	var rows []string
	for _, one := range p.Types {
		if !generated[p.file(one.Decl)] {
			continue
		}
		text := p.sentence(one.Doc)
		for _, group := range one.Consts {
			text += " Values: `" + strings.Join(group.Names, "`, `") + "`."
		}
		rows = append(rows, fmt.Sprintf("| `%s` | %s |\n", one.Name, text))
	}
	return rows
}

// signature formats a function as Name(parameters) results, a method as Type.Name(parameters) results.
func (p *pkg) signature(one *doc.Func) string {
	text := strings.TrimPrefix(p.printed(&ast.FuncDecl{Name: one.Decl.Name, Type: one.Decl.Type}), "func ")
	if one.Recv != "" {
		text = strings.TrimPrefix(strings.SplitN(one.Recv, "[", 2)[0], "*") + "." + text
	}
	return text
}

func (p *pkg) printed(node any) string {
	var text bytes.Buffer
	if err := printer.Fprint(&text, p.files, node); err != nil {
		panic(err)
	}
	line := strings.Join(strings.Fields(text.String()), " ")
	return strings.NewReplacer("( ", "(", ", )", ")").Replace(line)
}

func (p *pkg) row(name, text string) string {
	return fmt.Sprintf("| `%s` | %s |\n", strings.ReplaceAll(name, "|", "\\|"), p.sentence(text))
}

// sentence returns the first sentence of a comment.
func (p *pkg) sentence(text string) string {
	return strings.ReplaceAll(p.Synopsis(text), "|", "\\|")
}
