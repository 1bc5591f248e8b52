package main

import (
	"fmt"
	"go/ast"
	"maps"
	"slices"
	"strings"
)

// fieldsByValue counts the fields of a struct of a package, and in place of a field that holds
// another struct of the package by value, or one without a name, the fields of that struct.
func (p *pkg) fieldsByValue(s *ast.StructType) int {
	n := 0
	for _, f := range s.Fields.List {
		each := 1
		if held := p.structOf(f.Type); held != nil {
			each = p.fieldsByValue(held)
		}
		n += each * max(len(f.Names), 1)
	}
	return n
}

// mostByValue returns the struct of a package with the most fields by value.
func (p *pkg) mostByValue() largest {
	var most largest
	for _, name := range slices.Sorted(maps.Keys(p.types)) {
		if s, ok := p.types[name].(*ast.StructType); ok {
			most.see(p.fieldsByValue(s), name)
		}
	}
	return most
}

// structOf returns the struct that an expression names or writes out, or nil.
func (p *pkg) structOf(e ast.Expr) *ast.StructType {
	switch e := e.(type) {
	case *ast.StructType:
		return e
	case *ast.Ident:
		if t := p.types[e.Name]; t != nil {
			return p.structOf(t)
		}
	case *ast.IndexExpr:
		return p.structOf(e.X)
	case *ast.IndexListExpr:
		return p.structOf(e.X)
	}
	return nil
}

// functionsWith counts the functions and methods of a package that have a pointer to one of some
// types as receiver or parameter.
func (p *pkg) functionsWith(types ...string) int {
	n := 0
	for _, f := range p.funcs {
		lists := []*ast.FieldList{f.Recv, f.Type.Params}
		if slices.ContainsFunc(lists, func(l *ast.FieldList) bool { return hasPointer(l, types) }) {
			n++
		}
	}
	return n
}

// holders counts the structs of a package that have a field with a pointer to one of some types.
func (p *pkg) holders(types ...string) int {
	n := 0
	for _, t := range p.types {
		if s, ok := t.(*ast.StructType); ok && hasPointer(s.Fields, types) {
			n++
		}
	}
	return n
}

func hasPointer(list *ast.FieldList, types []string) bool {
	if list == nil {
		return false
	}
	return slices.ContainsFunc(list.List, func(f *ast.Field) bool {
		e := f.Type
		if rest, ok := e.(*ast.Ellipsis); ok {
			e = rest.Elt
		}
		pointer, ok := e.(*ast.StarExpr)
		return ok && slices.Contains(types, typeName(pointer.X))
	})
}

// use counts what uses some types of a package, and the fields by value of each of these types.
type use struct {
	functions, holders int
	fields             []int
}

// uses counts what uses types, each given as FOLDER.TYPE, in the package of the first.
func (t *tree) uses(types ...string) (use, error) {
	var u use
	var names []string
	var p *pkg
	for _, full := range types {
		at := strings.LastIndexByte(full, '.')
		if at < 0 || t.pkgs[full[:at]] == nil || p != nil && p != t.pkgs[full[:at]] {
			return u, fmt.Errorf("%s: give types of one package as FOLDER.TYPE", full)
		}
		p = t.pkgs[full[:at]]
		s := p.structOf(ast.NewIdent(full[at+1:]))
		if s == nil {
			return u, fmt.Errorf("%s is not a struct of the tree", full)
		}
		names = append(names, full[at+1:])
		u.fields = append(u.fields, p.fieldsByValue(s))
	}
	u.functions, u.holders = p.functionsWith(names...), p.holders(names...)
	return u, nil
}
