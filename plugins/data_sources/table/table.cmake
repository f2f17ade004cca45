# The common sources of data sources of tables; they need PkgConfig::sodium.
set(privgrad_table_sources cell_text.cpp columns.cpp dates.cpp declared_table.cpp split.cpp suggest.cpp table.cpp target_column.cpp)
list(TRANSFORM privgrad_table_sources PREPEND ${CMAKE_CURRENT_LIST_DIR}/)
