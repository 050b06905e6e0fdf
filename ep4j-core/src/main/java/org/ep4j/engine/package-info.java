/**
 * What every engine shares: its registration, and the checks of arguments against a configuration.
 */
@NullMarked
package org.ep4j.engine;

import org.jspecify.annotations.NullMarked;
