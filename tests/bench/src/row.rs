//! What a workload has found.

/// One line of the table.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) what: String,
    pub(crate) figure: String,
    pub(crate) goal: Option<Goal>,
}

/// What a figure should be.
#[derive(Clone, Debug)]
pub(crate) struct Goal {
    pub(crate) text: String,
    pub(crate) met: bool,
    /// A count, or a ratio of neighbours in time: it should not depend on the machine.
    pub(crate) steady: bool,
}

/// One bar of the chart.
#[derive(Clone, Debug)]
pub(crate) struct Bar {
    pub(crate) panel: Panel,
    pub(crate) who: &'static str,
    pub(crate) value: f64,
}

/// The parts of the chart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Panel {
    Cycle,
    HandOff,
    Use,
    Wait,
}

/// Rows and bars of a workload.
#[derive(Clone, Debug, Default)]
pub(crate) struct Found {
    pub(crate) rows: Vec<Row>,
    pub(crate) bars: Vec<Bar>,
}

impl Found {
    /// A figure that stands for itself.
    pub(crate) fn tell(&mut self, what: impl Into<String>, figure: impl Into<String>) {
        self.rows.push(Row { what: what.into(), figure: figure.into(), goal: None });
    }

    /// A figure with a goal.
    pub(crate) fn judge(&mut self, what: impl Into<String>, figure: impl Into<String>, goal: Goal) {
        self.rows.push(Row { what: what.into(), figure: figure.into(), goal: Some(goal) });
    }

    pub(crate) fn bar(&mut self, panel: Panel, who: &'static str, value: f64) {
        self.bars.push(Bar { panel, who, value });
    }
}

impl Goal {
    /// At most `bound`, in `unit`.
    pub(crate) fn at_most(value: f64, bound: f64, unit: &str) -> Self {
        Self { text: format!("<= {bound}{unit}"), met: value <= bound, steady: false }
    }

    /// At least `bound`, in `unit`.
    pub(crate) fn at_least(value: f64, bound: f64, unit: &str) -> Self {
        Self { text: format!(">= {bound}{unit}"), met: value >= bound, steady: false }
    }

    pub(crate) fn steady(mut self) -> Self {
        self.steady = true;
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_goal_is_met_at_its_bound_and_not_past_it() {
        assert!(Goal::at_most(2.0, 2.0, "").met && !Goal::at_most(2.1, 2.0, "").met);
        assert!(Goal::at_least(2.0, 2.0, "").met && !Goal::at_least(1.9, 2.0, "").met);
        assert_eq!(Goal::at_most(1.0, 0.6, " x").text, "<= 0.6 x");
    }
}
