package manifest

func valueAt(tree any, at path) any {
	for _, s := range at {
		switch node := tree.(type) {
		case map[string]any:
			tree = node[s.name]
		case []any:
			if s.index >= len(node) {
				return nil
			}
			tree = node[s.index]
		default:
			return nil
		}
	}
	return tree
}

// significant is v without what is empty: Kubernetes makes no difference
// between an empty list or object and none.
func significant(v any) any {
	switch node := v.(type) {
	case map[string]any:
		kept := map[string]any{}
		for k, child := range node {
			if child = significant(child); child != nil {
				kept[k] = child
			}
		}
		if len(kept) > 0 {
			return kept
		}
		return nil
	case []any:
		if len(node) == 0 {
			return nil
		}
		kept := make([]any, len(node))
		for i, child := range node {
			kept[i] = significant(child)
		}
		return kept
	}
	return v
}

// remove is the tree without the values found. What is left empty by it, and
// has a meaning only by what is in it, goes too.
func remove(tree any, found []finding) any {
	gone := make(map[string]bool, len(found))
	for _, f := range found {
		gone[f.at.id()] = true
	}
	kept, _ := prune(tree, nil, gone)
	return kept
}

func prune(v any, at path, gone map[string]bool) (any, bool) {
	if gone[at.id()] {
		return nil, false
	}
	switch node := v.(type) {
	case map[string]any:
		kept := make(map[string]any, len(node))
		for k, child := range node {
			if child, ok := prune(child, at.field(k), gone); ok {
				kept[k] = child
			}
		}
		return kept, len(kept) > 0 || !meaningless(at)
	case []any:
		kept := make([]any, 0, len(node))
		for i, child := range node {
			if child, ok := prune(child, at.item(i), gone); ok {
				kept = append(kept, child)
			}
		}
		return kept, len(kept) > 0 || !meaningless(at)
	}
	return v, true
}

// meaningless reports places in the table below which nothing is honoured.
func meaningless(at path) bool {
	honoured, inside := fields.interior[at.pattern()]
	return inside && !honoured
}
