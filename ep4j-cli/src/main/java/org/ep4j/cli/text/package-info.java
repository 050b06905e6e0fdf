/** Text output: tables, units, colours, progress, JSON. */
@NullMarked
package org.ep4j.cli.text;

import org.jspecify.annotations.NullMarked;
