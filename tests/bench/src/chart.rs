//! The chart of the documentation.

use std::path::Path;

use plotters::backend::SVGBackend;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use crate::Result;
use crate::row::{Bar, Panel};

const WIDTH: u32 = 960;
/// Where bars begin, and how long the longest may be.
const LEFT: i32 = 240;
const LONGEST: f64 = 600.0;
const LINE: i32 = 22;
const HEAD: i32 = 44;
const GAP: i32 = 18;

const OURS: RGBColor = RGBColor(20, 110, 180);
const THEIRS: RGBColor = RGBColor(165, 172, 180);
const INK: RGBColor = RGBColor(35, 40, 45);

/// How a panel is drawn.
struct Form {
    panel: Panel,
    title: &'static str,
    /// Of a logarithmic scale, the value at its left end.
    from: Option<f64>,
    text: fn(f64) -> String,
}

const FORMS: [Form; 4] = [
    Form {
        panel: Panel::Cycle,
        title: "Acquire and release, nobody else there: median, shorter is better (logarithmic)",
        from: Some(10.0),
        text: time,
    },
    Form {
        panel: Panel::HandOff,
        title: "From release to the grant of the next process: median, shorter is better (logarithmic)",
        from: Some(10.0),
        text: time,
    },
    Form {
        panel: Panel::Use,
        title: "32 contenders, 2 ms each: turns as a part of those that would fit, longer is better",
        from: None,
        text: |value| format!("{value:.0} %"),
    },
    Form {
        panel: Panel::Wait,
        title: "The same: the wait that 1 in 100 exceeds, in ms, shorter is better",
        from: None,
        text: |value| format!("{value:.0} ms"),
    },
];

/// Draws bars into a file.
pub(crate) fn draw(path: &Path, bars: &[Bar]) -> Result<()> {
    let height: i32 = FORMS.iter().map(|form| HEAD + LINE * lines(form, bars) + GAP).sum();
    let area = SVGBackend::new(path, (WIDTH, u32::try_from(height)?)).into_drawing_area();
    area.fill(&WHITE)?;
    let mut top = 0;
    for form in &FORMS {
        let of_it: Vec<&Bar> = bars.iter().filter(|bar| bar.panel == form.panel).collect();
        area.draw_text(form.title, &ink(16, HPos::Left), (16, top + HEAD / 2))?;
        top += HEAD;
        let most = of_it.iter().map(|bar| bar.value).fold(f64::MIN_POSITIVE, f64::max);
        for bar in of_it {
            let end = LEFT + (LONGEST * length(form, bar.value, most)).round() as i32;
            let color = if bar.who.starts_with("lockrt") { OURS } else { THEIRS };
            area.draw_text(bar.who, &ink(14, HPos::Right), (LEFT - 10, top + LINE / 2))?;
            let corners = [(LEFT, top + 3), (end.max(LEFT + 2), top + LINE - 3)];
            area.draw(&Rectangle::new(corners, color.filled()))?;
            area.draw_text(&(form.text)(bar.value), &ink(14, HPos::Left), (end + 8, top + LINE / 2))?;
            top += LINE;
        }
        top += GAP;
    }
    area.present()?;
    Ok(())
}

fn lines(form: &Form, bars: &[Bar]) -> i32 {
    i32::try_from(bars.iter().filter(|bar| bar.panel == form.panel).count()).unwrap_or_default()
}

/// A bar's part of the longest one.
fn length(form: &Form, value: f64, most: f64) -> f64 {
    let part = match form.from {
        Some(from) => (value / from).ln() / (most / from).ln(),
        None => value / most,
    };
    part.clamp(0.0, 1.0)
}

fn time(us: f64) -> String {
    if us < 1_000.0 { format!("{us:.0} us") } else { format!("{:.1} ms", us / 1e3) }
}

fn ink(size: i32, side: HPos) -> TextStyle<'static> {
    ("sans-serif", size).into_font().color(&INK).pos(Pos::new(side, VPos::Center))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_panel_and_bar_is_drawn() {
        let path = std::env::temp_dir().join(format!("lockrt-bench-chart-{}.svg", std::process::id()));
        let values = [("lockrt", 38.0), ("redlock (Rust)", 170.0), ("python-redis-lock", 99_000.0)];
        let bar = |panel, (who, value)| Bar { panel, who, value };
        let bars = FORMS.iter().flat_map(|form| values.map(|value| bar(form.panel, value)));
        draw(&path, &bars.collect::<Vec<_>>()).unwrap();
        let drawn = std::fs::read_to_string(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        assert!(FORMS.iter().all(|form| drawn.contains(form.title)));
        assert_eq!(drawn.matches("redlock (Rust)").count(), FORMS.len());
    }

    #[test]
    fn ten_times_as_much_is_one_step_of_a_logarithmic_scale() {
        let [cycle, _, used, _] = &FORMS;
        assert!((length(cycle, 100.0, 1_000.0) - 0.5).abs() < 1e-9);
        assert!((length(used, 50.0, 100.0) - 0.5).abs() < 1e-9);
        assert_eq!(length(cycle, 1.0, 1_000.0), 0.0);
    }
}
