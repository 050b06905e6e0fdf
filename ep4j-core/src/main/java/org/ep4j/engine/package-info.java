/**
 * Code that all engines share: their registration, and the checks of arguments against a
 * configuration.
 */
@NullMarked
package org.ep4j.engine;

import org.jspecify.annotations.NullMarked;
