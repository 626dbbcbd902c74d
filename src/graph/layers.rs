//! Where each node of a picture is: in a column after all that it waits for.

use super::Graph;

/// For each node, its column and its row.
pub fn places(graph: &Graph) -> Vec<(usize, usize)> {
    let columns = columns(graph);
    let mut rows: Vec<usize> = vec![0; columns.iter().max().map_or(0, |last| last + 1)];
    let place = |column: usize| {
        let row = rows.get_mut(column).map_or(0, |row| std::mem::replace(row, *row + 1));
        (column, row)
    };
    columns.into_iter().map(place).collect()
}

/// For each node, the longest way to it. A node in a circle has the place that it is reached at first.
fn columns(graph: &Graph) -> Vec<usize> {
    let number = graph.nodes.len();
    let mut open: Vec<usize> = vec![0; number];
    let mut after: Vec<Vec<usize>> = vec![Vec::new(); number];
    for edge in graph.edges.iter().filter(|edge| edge.from != edge.to) {
        if let (Some(open), Some(after)) = (open.get_mut(edge.to), after.get_mut(edge.from)) {
            *open += 1;
            after.push(edge.to);
        }
    }
    let mut columns: Vec<usize> = vec![0; number];
    let mut is_done = vec![false; number];
    let mut ready: Vec<usize> = (0..number).filter(|node| open.get(*node) == Some(&0)).collect();
    loop {
        while let Some(node) = ready.pop() {
            if is_done.get_mut(node).is_none_or(|done| std::mem::replace(done, true)) {
                continue;
            }
            let column = columns.get(node).copied().unwrap_or(0) + 1;
            for next in after.get(node).into_iter().flatten() {
                if let (Some(place), Some(open), Some(false)) =
                    (columns.get_mut(*next), open.get_mut(*next), is_done.get(*next))
                {
                    *place = column.max(*place);
                    *open = open.saturating_sub(1);
                    if *open == 0 {
                        ready.push(*next);
                    }
                }
            }
        }
        // Only circles are left: begin with the first node of one.
        match is_done.iter().position(|done| !done) {
            Some(node) => ready.push(node),
            None => return columns,
        }
    }
}
