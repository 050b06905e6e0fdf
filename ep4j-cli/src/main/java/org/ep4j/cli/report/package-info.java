/**
 * Pages: {@code Page} writes one, and its script draws what {@code Charts} holds. {@code
 * ReportPage} is about runs of the benchmark, for {@code bench --html} and {@code report}: {@code
 * RunArtifact} reads what a run recorded, {@code RunComparison} compares two runs.
 */
@NullMarked
package org.ep4j.cli.report;

import org.jspecify.annotations.NullMarked;
