"""What a person looks at: figures and pages, rebuilt from values without running anything."""
