/**
 * Pages about runs of the benchmark: {@code bench --html} and {@code report}. {@code RunArtifact}
 * reads what a run recorded, {@code RunComparison} compares two runs, {@code ReportPage} writes the
 * page, and the script of the page draws its charts.
 */
@NullMarked
package org.ep4j.cli.report;

import org.jspecify.annotations.NullMarked;
