//! Every interleaving of ends, orders by hand, reloads, a shutdown and messages for groups of three.

mod job;
mod world;

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::rc::Rc;
use std::time::Duration;

use world::{Budget, Move, World, policy, spec};

use crate::actors::job::machine::lifecycle::Policy;
use crate::config::spec::{GroupSpec, Limit, OnExhausted, Strategy};

/// A group whose members all run and are ready.
fn running(spec: GroupSpec, policy: &Policy, budget: Budget) -> World {
    let mut world = World::new(spec, Budget::default());
    while let Some(it) = world.moves().first() {
        world = world.after(policy, *it);
    }
    world.budget = budget;
    world
}

/// For each state that was reached, the state before it and the move that led here.
type CameFrom = HashMap<Rc<World>, Option<(Rc<World>, Move)>>;

/// Goes through every state that can be reached; how many there are.
fn explore(first: World, policy: &Policy) -> usize {
    let first = Rc::new(first);
    let mut came_from: CameFrom = HashMap::from([(Rc::clone(&first), None)]);
    let mut open = vec![first];
    while let Some(world) = open.pop() {
        if let Some(rule) = world.broken_rule() {
            panic!("{rule}, after: {:#?}", way_to(&world, &came_from));
        }
        for it in world.moves() {
            let next = Rc::new(world.after(policy, it));
            if let Entry::Vacant(entry) = came_from.entry(Rc::clone(&next)) {
                entry.insert(Some((Rc::clone(&world), it)));
                open.push(next);
            }
        }
    }
    came_from.len()
}

/// The moves that led to a state.
fn way_to(world: &Rc<World>, came_from: &CameFrom) -> Vec<Move> {
    let mut way = Vec::new();
    let mut current = world;
    while let Some(Some((before, it))) = came_from.get(current) {
        way.insert(0, *it);
        current = before;
    }
    way
}

const STRATEGIES: [Strategy; 3] = [Strategy::OneForOne, Strategy::OneForAll, Strategy::RestForOne];

fn endless(strategy: Strategy) -> GroupSpec {
    spec(strategy, Limit::Unlimited, OnExhausted::Shutdown)
}

#[test]
fn no_member_is_left_with_an_older_execution_of_one_before_it_whatever_ends() {
    let policy = policy(Duration::ZERO);
    for strategy in STRATEGIES {
        let states =
            explore(running(endless(strategy), &policy, Budget { ends: 3, ..Budget::default() }), &policy);
        println!("{strategy:?}, three ends: {states} states");
    }
}

#[test]
fn no_member_is_left_with_an_older_execution_of_one_before_it_whatever_a_user_orders() {
    let policy = policy(Duration::ZERO);
    for strategy in STRATEGIES {
        let none = Budget::default();
        for budget in [Budget { ends: 1, orders: 1, ..none }, Budget { orders: 2, ..none }] {
            let states = explore(running(endless(strategy), &policy, budget), &policy);
            println!("{strategy:?}, {budget:?}: {states} states");
        }
    }
}

#[test]
fn no_member_is_left_with_an_older_execution_of_one_before_it_whatever_a_reload_changes() {
    let policy = policy(Duration::ZERO);
    for strategy in STRATEGIES {
        let none = Budget::default();
        let budgets = [
            Budget { reloads: 2, ..none },
            Budget { ends: 1, reloads: 1, ..none },
            Budget { orders: 1, reloads: 1, ..none },
        ];
        for budget in budgets {
            let states = explore(running(endless(strategy), &policy, budget), &policy);
            println!("{strategy:?}, {budget:?}: {states} states");
        }
    }
}

#[test]
fn no_member_outlives_a_shutdown_whenever_it_comes() {
    let policy = policy(Duration::ZERO);
    for strategy in STRATEGIES {
        let none = Budget::default();
        let budgets = [
            Budget { ends: 1, shutdowns: 1, ..none },
            Budget { orders: 1, shutdowns: 1, ..none },
            Budget { reloads: 1, shutdowns: 1, ..none },
        ];
        for budget in budgets {
            let states = explore(running(endless(strategy), &policy, budget), &policy);
            println!("{strategy:?}, {budget:?}: {states} states");
        }
        let states = explore(World::new(endless(strategy), Budget { shutdowns: 1, ..none }), &policy);
        println!("{strategy:?}, shut down from the start on: {states} states");
    }
}

#[test]
fn a_delay_before_a_restart_changes_nothing_of_that() {
    let policy = policy(Duration::from_secs(1));
    for strategy in STRATEGIES {
        let none = Budget::default();
        for budget in [Budget { ends: 2, ..none }, Budget { ends: 1, orders: 1, ..none }] {
            let states = explore(running(endless(strategy), &policy, budget), &policy);
            println!("{strategy:?}, {budget:?}, with backoff: {states} states");
        }
    }
}

#[test]
fn every_order_of_triggers_starts_all_members() {
    let policy = policy(Duration::ZERO);
    for strategy in STRATEGIES {
        let states = explore(World::new(endless(strategy), Budget::default()), &policy);
        println!("{strategy:?}, from the start: {states} states");
    }
}

#[test]
fn a_member_with_an_event_of_its_own_holds_up_nobody_whenever_that_comes() {
    let (policy, none) = (policy(Duration::ZERO), Budget::default());
    let (first, second) = ([true, false, false], [false, true, false]);
    let end = Budget { ends: 1, ..none };
    let others =
        [Budget { orders: 1, ..none }, Budget { reloads: 1, ..none }, Budget { shutdowns: 1, ..none }];
    for strategy in STRATEGIES {
        let cases = [(first, end), (second, end)].into_iter().chain(others.map(|budget| (second, budget)));
        for (waiters, budget) in cases {
            let states = explore(World::with_waiters(endless(strategy), waiters, budget), &policy);
            println!("{strategy:?}, {waiters:?}, {budget:?}: {states} states");
        }
    }
}

#[test]
fn a_group_that_gives_up_ends_in_any_interleaving() {
    let policy = policy(Duration::ZERO);
    for strategy in STRATEGIES {
        let spec = spec(strategy, Limit::Finite(0), OnExhausted::Stop);
        let states = explore(running(spec, &policy, Budget { ends: 2, ..Budget::default() }), &policy);
        println!("{strategy:?}, gives up: {states} states");
    }
}
