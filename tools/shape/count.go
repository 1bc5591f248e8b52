package main

import (
	"go/ast"
	"go/scanner"
	"go/token"
	"strings"
)

// addNames counts what a file exports. Fields and methods count where their type is
// exported, too: nobody outside names the others.
func (p *pkg) addNames(file *ast.File) {
	for _, d := range file.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			switch {
			case !d.Name.IsExported():
			case d.Recv == nil:
				p.names++
			case ast.IsExported(receiver(d)):
				p.methods++
			}
		case *ast.GenDecl:
			for _, s := range d.Specs {
				p.addSpec(s)
			}
		}
	}
}

func (p *pkg) addSpec(s ast.Spec) {
	switch s := s.(type) {
	case *ast.ValueSpec:
		p.names += exported(s.Names)
	case *ast.TypeSpec:
		if !s.Name.IsExported() {
			return
		}
		p.names++
		structure, ok := s.Type.(*ast.StructType)
		if !ok {
			return
		}
		for _, f := range structure.Fields.List {
			if len(f.Names) == 0 && ast.IsExported(typeName(f.Type)) {
				p.fields++
			}
			p.fields += exported(f.Names)
		}
	}
}

func exported(names []*ast.Ident) int {
	n := 0
	for _, name := range names {
		if name.IsExported() {
			n++
		}
	}
	return n
}

// typeName is the last name of a type without its pointer, package and parameters.
func typeName(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return e.Sel.Name
	case *ast.StarExpr:
		return typeName(e.X)
	case *ast.ParenExpr:
		return typeName(e.X)
	case *ast.IndexExpr:
		return typeName(e.X)
	case *ast.IndexListExpr:
		return typeName(e.X)
	}
	return ""
}

// receiver is the name of the type that a method belongs to.
func receiver(d *ast.FuncDecl) string { return typeName(d.Recv.List[0].Type) }

func funcName(d *ast.FuncDecl) string {
	if d.Recv == nil || len(d.Recv.List) == 0 {
		return d.Name.Name
	}
	return receiver(d) + "." + d.Name.Name
}

// cyclomatic is McCabe's number: one, and one for each branch, loop, case and
// condition joined by && or ||. What function literals hold counts for the function
// around them, as a reader has to follow it there.
func cyclomatic(d *ast.FuncDecl) int {
	n := 1
	ast.Inspect(d, func(node ast.Node) bool {
		switch node := node.(type) {
		case *ast.IfStmt, *ast.ForStmt, *ast.RangeStmt:
			n++
		case *ast.CaseClause:
			if node.List != nil { // not default
				n++
			}
		case *ast.CommClause:
			if node.Comm != nil {
				n++
			}
		case *ast.BinaryExpr:
			if node.Op == token.LAND || node.Op == token.LOR {
				n++
			}
		}
		return true
	})
	return n
}

// countLines counts the lines of a source that have code, and those that have only a
// comment.
func countLines(source []byte) (comments, codes int) {
	fset := token.NewFileSet()
	file := fset.AddFile("", fset.Base(), len(source))
	var s scanner.Scanner
	s.Init(file, source, nil, scanner.ScanComments)
	code, comment := map[int]bool{}, map[int]bool{}
	for {
		pos, tok, text := s.Scan()
		if tok == token.EOF {
			break
		}
		if tok == token.SEMICOLON && text == "\n" {
			continue // the scanner's own
		}
		lines := code
		if tok == token.COMMENT {
			lines = comment
		}
		first := file.Line(pos)
		for i := range strings.Count(text, "\n") + 1 {
			lines[first+i] = true
		}
	}
	for line := range comment {
		if !code[line] {
			comments++
		}
	}
	return comments, len(code)
}
