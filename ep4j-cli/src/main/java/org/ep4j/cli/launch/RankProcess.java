package org.ep4j.cli.launch;

import java.util.List;
import java.util.Map;

/**
 * What to start for one rank.
 *
 * @param command program and arguments
 * @param environment variables added to those of the launcher
 * @param out takes its standard output
 * @param err takes its standard error
 */
public record RankProcess(
    List<String> command, Map<String, String> environment, LineSink out, LineSink err) {}
