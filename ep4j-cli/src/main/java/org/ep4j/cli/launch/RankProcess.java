package org.ep4j.cli.launch;

import java.util.List;
import java.util.Map;

/**
 * The process of one rank.
 *
 * @param command program and arguments
 * @param environment variables added to those of the launcher
 * @param out receives its standard output
 * @param err receives its standard error
 */
public record RankProcess(
    List<String> command, Map<String, String> environment, LineSink out, LineSink err) {}
